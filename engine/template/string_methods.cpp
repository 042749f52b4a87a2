// Methods of str.
#include <algorithm>
#include <array>

#include "engine/template/interpreter.h"
#include "engine/template/library.h"
#include "engine/template/unicode.h"

namespace vitrine::engine::jinja {
namespace {

const Text& self(Interpreter& in, const Value& value) {
  in.chargeBytes(value.text()->size() * 2);
  return *value.text();
}

Value strip(Interpreter& in, const Value& v, const Arguments& a) {
  return trimText(self(in, v), true, true, Parameters(a, "strip", {"chars"})[0]);
}
Value lstrip(Interpreter& in, const Value& v, const Arguments& a) {
  return trimText(self(in, v), true, false, Parameters(a, "lstrip", {"chars"})[0]);
}
Value rstrip(Interpreter& in, const Value& v, const Arguments& a) {
  return trimText(self(in, v), false, true, Parameters(a, "rstrip", {"chars"})[0]);
}
Value upper(Interpreter& in, const Value& v, const Arguments&) {
  return self(in, v).mapped(toUpper);
}
Value lower(Interpreter& in, const Value& v, const Arguments&) {
  return self(in, v).mapped(toLower);
}
Value capitalizeMethod(Interpreter& in, const Value& v, const Arguments&) {
  return Text::derived(capitalize(self(in, v).bytes()), *v.text());
}

// Python's rule: a word is a run of letters.
Value title(Interpreter& in, const Value& v, const Arguments&) {
  const std::string& bytes = self(in, v).bytes();
  std::string out;
  bool inWord = false;
  for (std::size_t i = 0; i < bytes.size();) {
    const std::size_t length = characterLength(bytes, i);
    const std::string_view character = std::string_view(bytes).substr(i, length);
    const bool isWordPart = isLetter(decodeAt(bytes, i, length));
    out +=
        !isWordPart ? std::string(character) : (inWord ? toLower(character) : toUpper(character));
    inWord = isWordPart;
    i += length;
  }
  return Text::derived(std::move(out), *v.text());
}

Value swapCase(Interpreter& in, const Value& v, const Arguments&) {
  const std::string& bytes = self(in, v).bytes();
  std::string out;
  for (std::size_t i = 0; i < bytes.size();) {
    const std::size_t length = characterLength(bytes, i);
    const std::string_view character = std::string_view(bytes).substr(i, length);
    out += isUpper(decodeAt(bytes, i, length)) ? toLower(character) : toUpper(character);
    i += length;
  }
  return Text::derived(std::move(out), *v.text());
}

Value replace(Interpreter& in, const Value& v, const Arguments& a) {
  const Parameters given(a, "replace", {"old", "new", "count"});
  return replaceText(in, self(in, v), given.required(0).str(), given.required(1).str(),
                     given.integer(2, -1));
}

Value splitOnSpace(Interpreter& in, const Text& text, std::int64_t limit, bool fromRight) {
  std::vector<std::pair<std::size_t, std::size_t>> words;
  const std::string& bytes = text.bytes();
  std::size_t begin = std::string::npos;
  for (std::size_t i = 0; i < bytes.size();) {
    const std::size_t length = characterLength(bytes, i);
    const bool space = isSpace(decodeAt(bytes, i, length));
    if (!space && begin == std::string::npos) begin = i;
    if (space && begin != std::string::npos) {
      words.emplace_back(begin, i);
      begin = std::string::npos;
    }
    i += length;
  }
  if (begin != std::string::npos) words.emplace_back(begin, bytes.size());
  // What lies beyond the limit stays one piece, with the space at its outer end.
  const auto count = static_cast<std::int64_t>(words.size());
  if (limit >= 0 && count > limit) {
    const auto kept = static_cast<std::ptrdiff_t>(limit);
    if (fromRight) {
      words.erase(words.begin(), words.end() - kept - 1);
      words.front().first = 0;
    } else {
      words.erase(words.begin() + kept + 1, words.end());
      words.back().second = bytes.size();
    }
  }
  in.chargeItems(words.size() * 2);
  std::vector<Value> items;
  for (const auto& [from, to] : words) items.emplace_back(text.slice(from, to));
  return Value::sequence(std::move(items));
}

Value splitOn(Interpreter& in, const Text& text, const std::string& separator, std::int64_t limit,
              bool fromRight) {
  if (separator.empty()) throw TemplateError("split takes no empty separator");
  const std::string& bytes = text.bytes();
  std::vector<std::size_t> cuts;
  if (fromRight) {
    std::size_t end = bytes.size();
    while (limit < 0 || static_cast<std::int64_t>(cuts.size()) < limit) {
      if (end < separator.size()) break;
      const std::size_t found = bytes.rfind(separator, end - separator.size());
      if (found == std::string::npos) break;
      cuts.push_back(found);
      end = found;
    }
    std::reverse(cuts.begin(), cuts.end());
  } else {
    std::size_t found = bytes.find(separator);
    while (found != std::string::npos &&
           (limit < 0 || static_cast<std::int64_t>(cuts.size()) < limit)) {
      cuts.push_back(found);
      found = bytes.find(separator, found + separator.size());
    }
  }
  in.chargeItems(cuts.size() * 2 + 1);
  std::vector<Value> items;
  std::size_t begin = 0;
  for (const std::size_t cut : cuts) {
    items.emplace_back(text.slice(begin, cut));
    begin = cut + separator.size();
  }
  items.emplace_back(text.slice(begin, bytes.size()));
  return Value::sequence(std::move(items));
}

Value splitEither(Interpreter& in, const Value& v, const Arguments& a, bool fromRight) {
  const Parameters given(a, "split", {"sep", "maxsplit"});
  const Text& text = self(in, v);
  const std::int64_t limit = given.integer(1, -1);
  if (!given.has(0) || given[0]->isNone()) return splitOnSpace(in, text, limit, fromRight);
  return splitOn(in, text, given[0]->str().bytes(), limit, fromRight);
}
Value split(Interpreter& in, const Value& v, const Arguments& a) {
  return splitEither(in, v, a, false);
}
Value rsplit(Interpreter& in, const Value& v, const Arguments& a) {
  return splitEither(in, v, a, true);
}

Value splitLines(Interpreter& in, const Value& v, const Arguments& a) {
  const Parameters given(a, "splitlines", {"keepends"});
  const bool keeps = given.isTrue(0, false);
  const Text& text = self(in, v);
  const std::string& bytes = text.bytes();
  std::vector<Value> lines;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < bytes.size();) {
    const std::size_t length = characterLength(bytes, i);
    const char32_t c = decodeAt(bytes, i, length);
    const bool ends = (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 ||
                      c == 0x2028 || c == 0x2029;
    std::size_t next = i + length;
    if (ends) {
      if (c == '\r' && next < bytes.size() && bytes[next] == '\n') ++next;
      in.chargeItems(2);
      lines.emplace_back(text.slice(begin, keeps ? next : i));
      begin = next;
    }
    i = next;
  }
  if (begin < bytes.size()) lines.emplace_back(text.slice(begin, bytes.size()));
  return Value::sequence(std::move(lines));
}

Value hasAffix(Interpreter& in, const Value& v, const Arguments& a, bool atEnd) {
  const Parameters given(a, atEnd ? "endswith" : "startswith", {"affix", "start", "end"});
  Text text = self(in, v);
  if (given.has(1)) {
    const auto count = in.length(v);
    const auto bound = [&](std::size_t i, std::int64_t otherwise) {
      const std::int64_t value = given.integer(i, otherwise);
      return byteOffset(text.bytes(),
                        std::clamp<std::int64_t>(value < 0 ? value + count : value, 0, count));
    };
    const std::size_t end = bound(2, count);
    text = text.slice(bound(1, 0), end);
  }
  const auto fits = [&](const Value& affix) {
    if (affix.text() == nullptr) {
      throw TemplateError("a string can start or end only with a string, not a " +
                          affix.typeName());
    }
    const std::string& part = affix.text()->bytes();
    if (part.size() > text.size()) return false;
    return text.bytes().compare(atEnd ? text.size() - part.size() : 0, part.size(), part) == 0;
  };
  const Value& affix = given.required(0);
  const Sequence* several = affix.sequence();
  if (several == nullptr) return fits(affix);
  return std::any_of(several->items.begin(), several->items.end(), fits);
}
Value startsWith(Interpreter& in, const Value& v, const Arguments& a) {
  return hasAffix(in, v, a, false);
}
Value endsWith(Interpreter& in, const Value& v, const Arguments& a) {
  return hasAffix(in, v, a, true);
}

Value removePrefix(Interpreter& in, const Value& v, const Arguments& a) {
  const std::string part = Parameters(a, "removeprefix", {"prefix"}).required(0).str().bytes();
  const Text& text = self(in, v);
  return text.bytes().compare(0, part.size(), part) == 0 ? text.slice(part.size(), text.size())
                                                         : text;
}
Value removeSuffix(Interpreter& in, const Value& v, const Arguments& a) {
  const std::string part = Parameters(a, "removesuffix", {"suffix"}).required(0).str().bytes();
  const Text& text = self(in, v);
  if (part.size() > text.size()) return text;
  const std::size_t end = text.size() - part.size();
  return text.bytes().compare(end, part.size(), part) == 0 ? text.slice(0, end) : text;
}

Value findIn(Interpreter& in, const Value& v, const Arguments& a, bool fromRight, bool mustFind) {
  const Parameters given(a, "find", {"sub", "start", "end"});
  const Text& text = self(in, v);
  const std::string part = given.required(0).str().bytes();
  const std::int64_t count = in.length(v);
  const auto bound = [&](std::size_t i, std::int64_t otherwise) {
    const std::int64_t value = given.integer(i, otherwise);
    return byteOffset(text.bytes(),
                      std::clamp<std::int64_t>(value < 0 ? value + count : value, 0, count));
  };
  const std::size_t begin = bound(1, 0);
  const std::size_t end = std::max(bound(2, count), begin);
  const std::string_view range = std::string_view(text.bytes()).substr(begin, end - begin);
  const std::size_t found = fromRight ? range.rfind(part) : range.find(part);
  if (found == std::string_view::npos) {
    if (mustFind) throw TemplateError("substring not found");
    return -1;
  }
  return countCharacters(std::string_view(text.bytes()).substr(0, begin + found));
}
Value find(Interpreter& in, const Value& v, const Arguments& a) {
  return findIn(in, v, a, false, false);
}
Value rfind(Interpreter& in, const Value& v, const Arguments& a) {
  return findIn(in, v, a, true, false);
}
Value index(Interpreter& in, const Value& v, const Arguments& a) {
  return findIn(in, v, a, false, true);
}
Value rindex(Interpreter& in, const Value& v, const Arguments& a) {
  return findIn(in, v, a, true, true);
}

Value count(Interpreter& in, const Value& v, const Arguments& a) {
  const std::string part = Parameters(a, "count", {"sub"}).required(0).str().bytes();
  const std::string& bytes = self(in, v).bytes();
  if (part.empty()) return in.length(v) + 1;
  std::int64_t found = 0;
  for (std::size_t i = bytes.find(part); i != std::string::npos;
       i = bytes.find(part, i + part.size())) {
    ++found;
  }
  return found;
}

Value join(Interpreter& in, const Value& v, const Arguments& a) {
  const Parameters given(a, "join", {"iterable"});
  const std::vector<Value> items = in.iterate(given.required(0));
  for (const Value& item : items) {
    if (item.text() == nullptr) {
      throw TemplateError("join takes strings, not a " + item.typeName());
    }
  }
  return joinTexts(in, *v.text(), items);
}

Value partitionAt(Interpreter& in, const Value& v, const Arguments& a, bool fromRight) {
  const Text separator = Parameters(a, "partition", {"sep"}).required(0).str();
  const Text& text = self(in, v);
  if (separator.empty()) throw TemplateError("partition takes no empty separator");
  const std::size_t found =
      fromRight ? text.bytes().rfind(separator.bytes()) : text.bytes().find(separator.bytes());
  std::vector<Value> parts;
  if (found == std::string::npos) {
    parts = fromRight ? std::vector<Value>{Text(), Text(), text}
                      : std::vector<Value>{text, Text(), Text()};
  } else {
    parts = {text.slice(0, found), text.slice(found, found + separator.size()),
             text.slice(found + separator.size(), text.size())};
  }
  return Value::sequence(std::move(parts), SequenceKind::kTuple);
}
Value partition(Interpreter& in, const Value& v, const Arguments& a) {
  return partitionAt(in, v, a, false);
}
Value rpartition(Interpreter& in, const Value& v, const Arguments& a) {
  return partitionAt(in, v, a, true);
}

Value pad(Interpreter& in, const Value& v, const Arguments& a, double leftShare) {
  const Parameters given(a, "this method", {"width", "fillchar"});
  const std::string fill = given.text(1, " ").bytes();
  if (countCharacters(fill) != 1) throw TemplateError("the fill must be one character");
  return padText(in, self(in, v), given.integer(0, 0), fill, leftShare);
}
Value ljust(Interpreter& in, const Value& v, const Arguments& a) {
  return pad(in, v, a, 0);
}
Value rjust(Interpreter& in, const Value& v, const Arguments& a) {
  return pad(in, v, a, 1);
}
Value centerMethod(Interpreter& in, const Value& v, const Arguments& a) {
  return pad(in, v, a, 0.5);
}

Value zfill(Interpreter& in, const Value& v, const Arguments& a) {
  const std::int64_t width = Parameters(a, "zfill", {"width"}).integer(0, 0);
  const Text& text = self(in, v);
  const bool hasSign = !text.empty() && (text.bytes()[0] == '-' || text.bytes()[0] == '+');
  Text out = text.slice(0, hasSign ? 1 : 0);
  out.append(
      padText(in, text.slice(hasSign ? 1 : 0, text.size()), width - (hasSign ? 1 : 0), "0", 1));
  return out;
}

Value format(Interpreter& in, const Value& v, const Arguments& a) {
  return formatBraces(in, self(in, v), a);
}

// All characters are of a kind, and there is at least one.
template <typename Function>
Value allAre(Interpreter& in, const Value& v, Function isOfKind) {
  const std::string& bytes = self(in, v).bytes();
  for (std::size_t i = 0; i < bytes.size();) {
    const std::size_t length = characterLength(bytes, i);
    if (!isOfKind(decodeAt(bytes, i, length))) return false;
    i += length;
  }
  return !bytes.empty();
}
bool isAsciiDigit(char32_t c) {
  return c >= '0' && c <= '9';
}
Value isDigit(Interpreter& in, const Value& v, const Arguments&) {
  return allAre(in, v, isAsciiDigit);
}
Value isAlpha(Interpreter& in, const Value& v, const Arguments&) {
  return allAre(in, v, isLetter);
}
Value isAlnum(Interpreter& in, const Value& v, const Arguments&) {
  return allAre(in, v, [](char32_t c) { return isAsciiDigit(c) || isLetter(c); });
}
Value isSpaceMethod(Interpreter& in, const Value& v, const Arguments&) {
  return allAre(in, v, isSpace);
}
Value caseIs(Interpreter& in, const Value& v, bool (*wanted)(char32_t), bool (*other)(char32_t)) {
  bool some = false;
  const Value clean = allAre(in, v, [&](char32_t c) {
    some |= wanted(c);
    return !other(c);
  });
  return some && clean.isTrue();
}
Value isUpperMethod(Interpreter& in, const Value& v, const Arguments&) {
  return caseIs(in, v, isUpper, isLower);
}
Value isLowerMethod(Interpreter& in, const Value& v, const Arguments&) {
  return caseIs(in, v, isLower, isUpper);
}

struct Entry {
  std::string_view name;
  FilterFunction function;
};

}  // namespace

FilterFunction findStringMethod(std::string_view name) {
  static constexpr Entry kMethods[] = {
      {"strip", strip},
      {"lstrip", lstrip},
      {"rstrip", rstrip},
      {"upper", upper},
      {"lower", lower},
      {"casefold", lower},
      {"capitalize", capitalizeMethod},
      {"title", title},
      {"swapcase", swapCase},
      {"replace", replace},
      {"split", split},
      {"rsplit", rsplit},
      {"splitlines", splitLines},
      {"startswith", startsWith},
      {"endswith", endsWith},
      {"removeprefix", removePrefix},
      {"removesuffix", removeSuffix},
      {"find", find},
      {"rfind", rfind},
      {"index", index},
      {"rindex", rindex},
      {"count", count},
      {"join", join},
      {"partition", partition},
      {"rpartition", rpartition},
      {"ljust", ljust},
      {"rjust", rjust},
      {"center", centerMethod},
      {"zfill", zfill},
      {"format", format},
      {"isdigit", isDigit},
      {"isdecimal", isDigit},
      {"isnumeric", isDigit},
      {"isalpha", isAlpha},
      {"isalnum", isAlnum},
      {"isspace", isSpaceMethod},
      {"isupper", isUpperMethod},
      {"islower", isLowerMethod},
  };
  for (const Entry& entry : kMethods) {
    if (entry.name == name) return entry.function;
  }
  return nullptr;
}

}  // namespace vitrine::engine::jinja
