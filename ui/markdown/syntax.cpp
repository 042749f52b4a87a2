#include "ui/markdown/syntax.h"

#include <QHash>
#include <QSet>

namespace vitrine::ui {

struct Language {
  QSet<QString> keywords;
  QSet<QString> constants;
  QStringList lineComments;
  QString blockOpen, blockClose;
  QString quotes = QStringLiteral("\"'");
  QStringList longQuotes;    ///< strings that run over line ends
  bool markup = false;       ///< HTML, XML: tags instead of words
  bool dollarWords = false;  ///< $name is a variable
  bool ignoreCase = false;
  bool keysAreKeywords = false;  ///< a string before ':' names something (JSON)
};

namespace {

constexpr int kInComment = 1;
constexpr int kInLongQuote = 2;  // + index into longQuotes
constexpr int kInTag = 1000;

QSet<QString> words(const char* list) {
  const QStringList split = QString::fromLatin1(list).split(' ', Qt::SkipEmptyParts);
  return {split.begin(), split.end()};
}

Language cLike(const char* keywords, const char* constants = "true false null") {
  Language l;
  l.keywords = words(keywords);
  l.constants = words(constants);
  l.lineComments = QStringList{"//"};
  l.blockOpen = "/*";
  l.blockClose = "*/";
  return l;
}

QHash<QString, Language> makeLanguages() {
  QHash<QString, Language> all;

  Language python;
  python.keywords = words(
      "and as assert async await break case class continue def del elif else except finally for "
      "from global if import in is lambda match nonlocal not or pass raise return try while with "
      "yield");
  python.constants = words("None True False self cls");
  python.lineComments = QStringList{"#"};
  python.longQuotes = QStringList{"\"\"\"", "'''"};
  all["python"] = python;

  all["cpp"] = cLike(
      "alignas alignof auto bool break case catch char class concept const consteval constexpr "
      "constinit continue co_await co_return co_yield decltype default delete do double else enum "
      "explicit export extern final float for friend goto if inline int long mutable namespace new "
      "noexcept operator override private protected public register requires return short signed "
      "sizeof static static_assert static_cast struct switch template this throw try typedef "
      "typename union unsigned using virtual void volatile wchar_t while size_t",
      "true false nullptr NULL");

  Language js = cLike(
      "abstract any as async await boolean break case catch class const continue debugger declare "
      "default delete do else enum export extends finally for from function get if implements "
      "import in instanceof interface keyof let namespace new never number of private protected "
      "public readonly return set static string super switch this throw try type typeof unknown "
      "var void while with yield",
      "true false null undefined NaN Infinity");
  js.longQuotes = QStringList{"`"};
  all["js"] = js;

  Language json;
  json.constants = words("true false null");
  json.quotes = "\"";
  json.keysAreKeywords = true;
  json.lineComments = QStringList{"//"};
  all["json"] = json;

  Language bash;
  bash.keywords = words(
      "if then else elif fi for while until do done case esac in function select time export local "
      "readonly return exit source alias unset set shift trap echo cd sudo");
  bash.lineComments = QStringList{"#"};
  bash.dollarWords = true;
  bash.longQuotes = QStringList{"\"", "'"};
  bash.quotes.clear();
  all["bash"] = bash;

  Language rust = cLike(
      "as async await break const continue crate dyn else enum extern fn for if impl in let loop "
      "match mod move mut pub ref return self Self static struct super trait type unsafe use where "
      "while bool char f32 f64 i8 i16 i32 i64 i128 isize str u8 u16 u32 u64 u128 usize String Vec",
      "true false None Some Ok Err");
  rust.quotes = "\"";
  all["rust"] = rust;

  Language go = cLike(
      "break case chan const continue default defer else fallthrough for func go goto if import "
      "interface map package range return select struct switch type var bool byte error float32 "
      "float64 int int8 int16 int32 int64 rune string uint uint8 uint16 uint32 uint64",
      "true false nil iota");
  go.longQuotes = QStringList{"`"};
  all["go"] = go;

  all["java"] = cLike(
      "abstract assert boolean break byte case catch char class const continue data default do "
      "double else enum extends final finally float for fun goto if implements import in "
      "instanceof int interface internal is long namespace native new object open out override "
      "package private protected public readonly record return sealed short static string super "
      "switch synchronized this throw throws transient try using val var virtual void volatile "
      "when where while yield async await decimal bool foreach get set func let guard");

  Language sql;
  sql.ignoreCase = true;
  sql.keywords = words(
      "add all alter and as asc begin between by case commit create cross default delete desc "
      "distinct drop else end exists foreign from full group having if in index inner insert into "
      "is join key left like limit not null offset on or order outer primary references right "
      "rollback select set table then union unique update values view when where with");
  sql.constants = words("true false");
  sql.lineComments = QStringList{"--"};
  sql.blockOpen = "/*";
  sql.blockClose = "*/";
  all["sql"] = sql;

  Language html;
  html.markup = true;
  html.blockOpen = "<!--";
  html.blockClose = "-->";
  all["html"] = html;

  Language css = cLike("important media import font-face keyframes supports", "none auto inherit");
  css.lineComments.clear();
  all["css"] = css;

  Language hash;  // YAML, TOML, CMake, Makefile, R: words differ, comments and strings do not
  hash.keywords = words(
      "if else elseif endif foreach endforeach function endfunction macro endmacro while endwhile "
      "set include FROM RUN CMD COPY ENV ENTRYPOINT WORKDIR EXPOSE ARG library return");
  hash.constants = words("true false null yes no on off ON OFF TRUE FALSE NULL NA");
  hash.lineComments = QStringList{"#"};
  hash.dollarWords = true;
  all["hash"] = hash;

  Language ruby = hash;
  ruby.keywords = words(
      "alias and begin break case class def defined do else elsif end ensure extend for if in "
      "include module next not or private protected public raise redo require rescue retry return "
      "self super then undef unless until when while yield local function repeat");
  ruby.constants = words("nil true false");
  all["ruby"] = ruby;
  Language lua = ruby;
  lua.lineComments = QStringList{"--"};
  all["lua"] = lua;
  return all;
}

const Language* findLanguage(const QString& name) {
  static const QHash<QString, Language> languages = makeLanguages();
  static const QHash<QString, QString> aliases = {
      {"py", "python"},     {"python3", "python"}, {"c", "cpp"},         {"c++", "cpp"},
      {"cc", "cpp"},        {"h", "cpp"},          {"hpp", "cpp"},       {"cuda", "cpp"},
      {"objc", "cpp"},      {"javascript", "js"},  {"jsx", "js"},        {"ts", "js"},
      {"typescript", "js"}, {"tsx", "js"},         {"json5", "json"},    {"jsonc", "json"},
      {"jsonl", "json"},    {"sh", "bash"},        {"shell", "bash"},    {"zsh", "bash"},
      {"console", "bash"},  {"rs", "rust"},        {"golang", "go"},     {"kotlin", "java"},
      {"kt", "java"},       {"cs", "java"},        {"c#", "java"},       {"csharp", "java"},
      {"swift", "java"},    {"scala", "java"},     {"php", "java"},      {"dart", "java"},
      {"xml", "html"},      {"svg", "html"},       {"xhtml", "html"},    {"scss", "css"},
      {"yaml", "hash"},     {"yml", "hash"},       {"toml", "hash"},     {"ini", "hash"},
      {"cmake", "hash"},    {"make", "hash"},      {"makefile", "hash"}, {"dockerfile", "hash"},
      {"r", "hash"},        {"rb", "ruby"},        {"mysql", "sql"},     {"postgresql", "sql"},
      {"sqlite", "sql"}};
  // "python title=x" and "{.python}" name the language first.
  QString key = name.trimmed().toLower().section(' ', 0, 0);
  key.remove('{').remove('}');
  if (key.startsWith('.')) key.remove(0, 1);
  key = aliases.value(key, key);
  const auto found = languages.constFind(key);
  return found == languages.constEnd() ? nullptr : &found.value();
}

bool isWordStart(QChar c) {
  return c.isLetter() || c == '_';
}
bool isWord(QChar c) {
  return c.isLetterOrNumber() || c == '_';
}

}  // namespace

SyntaxHighlighter::SyntaxHighlighter(const QString& name) : m_language(findLanguage(name)) {}

std::vector<SyntaxSpan> SyntaxHighlighter::line(const QString& text, State* state) const {
  std::vector<SyntaxSpan> spans;
  if (!m_language) return spans;
  const Language& l = *m_language;
  const int size = int(text.size());
  const auto add = [&](int from, int to, SyntaxKind kind) {
    if (to > from) spans.push_back({from, to - from, kind});
  };
  const auto at = [&](int i, const QString& what) {
    return !what.isEmpty() && QStringView(text).mid(i).startsWith(what);
  };
  int i = 0;
  // What the line before left open.
  if (*state == kInComment) {
    const qsizetype close = text.indexOf(l.blockClose);
    const int end = close < 0 ? size : int(close + l.blockClose.size());
    add(0, end, SyntaxKind::kComment);
    if (close < 0) return spans;
    *state = 0;
    i = end;
  } else if (*state >= kInLongQuote && *state < kInTag) {
    const QString& quote = l.longQuotes[*state - kInLongQuote];
    int end = 0;
    for (; end < size && !at(end, quote); ++end) {
      if (text[end] == '\\') ++end;
    }
    const bool closed = end < size;
    end = closed ? end + int(quote.size()) : size;
    add(0, end, SyntaxKind::kString);
    if (!closed) return spans;
    *state = 0;
    i = end;
  }
  while (i < size) {
    const QChar c = text[i];
    bool isComment = false;
    for (const QString& mark : l.lineComments) {
      // '#' within a word is no comment in a shell.
      if (at(i, mark) && (mark != "#" || i == 0 || !isWord(text[i - 1]))) isComment = true;
      if (isComment && mark == "#" && l.dollarWords && i > 0 && !text[i - 1].isSpace()) {
        isComment = false;
      }
    }
    if (isComment) {
      add(i, size, SyntaxKind::kComment);
      return spans;
    }
    if (at(i, l.blockOpen)) {
      const qsizetype close = text.indexOf(l.blockClose, i + l.blockOpen.size());
      const int end = close < 0 ? size : int(close + l.blockClose.size());
      add(i, end, SyntaxKind::kComment);
      if (close < 0) {
        *state = kInComment;
        return spans;
      }
      i = end;
      continue;
    }
    int longQuote = -1;
    for (int k = 0; k < l.longQuotes.size(); ++k) {
      if (at(i, l.longQuotes[k])) longQuote = k;
    }
    if (longQuote >= 0) {
      const QString& quote = l.longQuotes[longQuote];
      int end = i + int(quote.size());
      for (; end < size && !at(end, quote); ++end) {
        if (text[end] == '\\') ++end;
      }
      const bool closed = end < size;
      end = closed ? end + int(quote.size()) : size;
      add(i, end, SyntaxKind::kString);
      if (!closed) {
        *state = kInLongQuote + longQuote;
        return spans;
      }
      i = end;
      continue;
    }
    if (l.markup) {
      if (*state == kInTag && (c == '"' || c == '\'')) {
        const qsizetype close = text.indexOf(c, i + 1);
        const int end = close < 0 ? size : int(close + 1);
        add(i, end, SyntaxKind::kString);
        i = end;
      } else if (*state != kInTag && c == '<' && i + 1 < size &&
                 (isWordStart(text[i + 1]) || text[i + 1] == '/' || text[i + 1] == '!')) {
        int end = i + 2;
        while (end < size && (isWord(text[end]) || text[end] == '-' || text[end] == ':')) ++end;
        add(i, end, SyntaxKind::kKeyword);
        *state = kInTag;
        i = end;
      } else if (*state == kInTag && c == '>') {
        add(i, i + 1, SyntaxKind::kKeyword);
        *state = 0;
        ++i;
      } else {
        ++i;
      }
      continue;
    }
    if (l.quotes.contains(c)) {
      int end = i + 1;
      while (end < size && text[end] != c) end += text[end] == '\\' ? 2 : 1;
      end = std::min(end + 1, size);
      SyntaxKind kind = SyntaxKind::kString;
      if (l.keysAreKeywords) {
        int colon = end;
        while (colon < size && text[colon].isSpace()) ++colon;
        if (colon < size && text[colon] == ':') kind = SyntaxKind::kKeyword;
      }
      add(i, end, kind);
      i = end;
      continue;
    }
    if (l.dollarWords && c == '$') {
      int end = i + 1;
      while (end < size && (isWord(text[end]) || text[end] == '{' || text[end] == '}')) ++end;
      add(i, end, SyntaxKind::kConstant);
      i = end;
      continue;
    }
    if (c.isDigit()) {
      int end = i + 1;
      while (end < size && (isWord(text[end]) || text[end] == '.')) ++end;
      add(i, end, SyntaxKind::kConstant);
      i = end;
      continue;
    }
    if (isWordStart(c)) {
      int end = i + 1;
      while (end < size && isWord(text[end])) ++end;
      const QString raw = text.mid(i, end - i);
      const QString word = l.ignoreCase ? raw.toLower() : raw;
      if (l.keywords.contains(word)) {
        add(i, end, SyntaxKind::kKeyword);
      } else if (l.constants.contains(word)) {
        add(i, end, SyntaxKind::kConstant);
      } else if (end < size && text[end] == '(') {
        add(i, end, SyntaxKind::kFunction);
      }
      i = end;
      continue;
    }
    ++i;
  }
  return spans;
}

}  // namespace vitrine::ui
