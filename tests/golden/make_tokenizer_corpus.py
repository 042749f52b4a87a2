#!/usr/bin/env python3
"""Writes tests/data/tokenizer_corpus.jsonl: awkward texts with what Hugging Face's tokenizers make of them.

    pip install tokenizers gguf
    python tests/golden/make_tokenizer_corpus.py SmolLM2-135M-Instruct.Q4_1.gguf

Each line: "text"; "ids", SmolLM2's tokens (its vocabulary and merges are taken from the GGUF, its
pre-tokenizer is the one of its tokenizer.json); and "cuts", for each family of pre-tokenizers the
lengths in bytes of the pieces that it makes. The expressions below are those of the families' own
tokenizer.json files.
"""
import json
import pathlib
import random
import sys

from gguf import GGUFReader
from tokenizers import Regex, Tokenizer, models, pre_tokenizers

CL100K = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|%s| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+%s"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*%s"
         r"|%s| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"


def split(*expressions):
    steps = [pre_tokenizers.Split(Regex(e), behavior="isolated") for e in expressions]
    return pre_tokenizers.Sequence(
        steps + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


FAMILIES = {
    "gpt-2": pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
    "smollm": pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)]),
    "llama-bpe": split(CL100K % r"\p{N}{1,3}"),
    "qwen2": split(CL100K % r"\p{N}"),
    "gpt-4o": split(O200K % (CONTRACTION, CONTRACTION, r"\p{N}{1,3}")),
    "tekken": split(O200K % ("", "", r"\p{N}")),
    "deepseek-coder": pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(e), behavior="isolated")
         for e in (r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-퟿]+")] +
        [pre_tokenizers.Digits(individual_digits=True),
         pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]),
    "deepseek-v3": split(
        r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+",
        r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
        r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"),
}

TEXTS = [
    # white space
    "", " ", "  ", "   ", "\t", " \t\t ", "\n", "\n\n\n", "\r\n", "\r\n\r\n", "\r", " \n \n ", "a\nb", "a\n\nb",
    "a \n\n b", "line\r\nline\r\n", "x" + " " * 33 + "y", "x" + "\n" * 21 + "y", "\u00a0non\u00a0breaking\u00a0",
    "thin\u2009space", "\u3000全角\u3000", "line\u2028sep\u2029para", "next\u0085line", "ogham\u1680space",
    "vowel\u180eseparator", "zero\u200bwidth\u200cjoin\u200dfeff\ufeff", "vt\x0bff\x0cend", "trail ", "trail  ",
    " lead", "  lead", "\tlead", " \t mix \t ", "a  b   c    d", "end\n", "end \n", "\n start", "\n\n  start",
    "1 \n2", "a\t\nb", "tab\ttab", "col1\tcol2\t\tcol4",
    # digits
    "7", "42", "123", "1234", "12345678901234567890", "3.14159265", "1,234,567.89", "-17", "+3e-10", "0xDEADBEEF",
    "2026-11-29T17:46:17Z", "192.168.0.1:8080", "v1.2.3-beta.4", "½ ¼ ¾", "x²+y³=z⁴", "Ⅳ Ⅻ ⅷ", "٠١٢٣٤٥", "०१२३",
    "１２３ fullwidth", "①②③", "a1b2c3", "1a 2b", "7 8  9", "100%", "$5.00", "5€", "#1", "№5", "2nd 3rd", "1st-2nd",
    # apostrophes
    "I'm", "you're they've we'll he'd it's don't", "I'M YOU'RE THEY'VE WE'LL HE'D IT'S DON'T", "'s", "'S 'T 'Re",
    "rock'n'roll", "'quoted'", "o’clock it’s", "l'été d'un", "'''", "''s", "x'ſ long s", "'LL'll'lL",
    # punctuation
    "...", "…", "—", "--", "---", "!!!", "?!?!", "a.b.c", "(a)", "[b]", "{c}", "<d>", "«e»", "„f“", "¿qué?", "¡ya!",
    "a/b\\c", "@user #tag", "a_b__c", "*bold* **x**", "`code`", "~~~", "|a|b|", "^_^", "=>", "->", "!=", "&&", "||",
    ";;", "::", "/*comment*/", "// slash/\n/", "#!/bin/sh", "%s %d", "\\n\\t", "a+b-c*d/e", "<|not_a_token|>", "<|im_",
    # words and case
    "hello", "Hello", "HELLO", "hELLO", " hello", "Hello, world!", "camelCaseName", "PascalCaseName", "snake_case_name",
    "kebab-case-name", "HTTPServer", "parseHTTPResponse", "iPhone", "McDonald", "ABCdefGHI", "aBcDeF", "ALLCAPS123abc",
    "supercalifragilisticexpialidocious", "Pneumonoultramicroscopicsilicovolcanoconiosis", "aaaaaaaaaaaaaaaaaaaaaaaa",
    "abababababababababab", "The quick brown fox jumps over the lazy dog.", "user\nWhat is it?", "assistant\n",
    # languages
    "Grüße aus Köln, Straße, Äpfel", "Ça va? Où est l'hôtel?", "El niño comió piñas", "São Paulo não é", "Łódź źdźbło",
    "Příliš žluťoučký kůň", "Árvíztűrő tükörfúrógép", "İstanbul'da ılık", "Đặng Thị Hường", "Þórr ð Æsir",
    "Привет, как дела?", "Ελληνικά γράμματα", "Ձայն ու լույս", "ქართული ენა", "שלום עולם", "مرحبا بالعالم", "سلام دنیا",
    "नमस्ते दुनिया", "বাংলা ভাষা", "தமிழ் மொழி", "ไทยเขียนติดกัน", "ພາສາລາວ", "မြန်မာ", "ខ្មែរ", "አማርኛ", "ᏣᎳᎩ",
    "中文沒有空格。", "简体中文，标点！", "日本語のテキスト、カタカナ。", "한국어 문장입니다.", "中文English混排123", "漢字かな混じり文",
    "ｆｕｌｌ　ｗｉｄｔｈ", "ﬁ ligature ﬂ", "ǅ titlecase ǲ", "ʰmodifier ʲ", "ªº",
    # combining and emoji
    "e\u0301", "cafe\u0301 vs café", "n\u0303o\u0308u\u0308", "Z͑ͫ̓ͪ̂a̴l̵g̶o̷", "\u0301alone", "क्षि", "🙂", "🙂🙂🙂", "👩‍💻", "👨‍👩‍👧‍👦",
    "🇫🇷🇩🇪", "👍🏽", "❤️", "☺︎", "text🙂text", " 🙂 ", "1️⃣", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "🎉party🎉", "→ ← ↑", "∑∫√∞≠≤", "α+β=γ", "♠♣♥♦", "█▓▒░",
    "┌─┐│└┘", "𝒜𝓁𝓅𝒽𝒶", "𐍈𐌰𐌹", "𠀀𠀁", "\U0010ffff", "\ue000private\uf8ff", "\ufffd", "\u0378unassigned",
    # code and markup
    "def f(x):\n    return x + 1\n", "for (int i = 0; i < n; ++i) {\n\ta[i] = 0;\n}\n", "if x:\n\tpass\nelse:\n\tpass",
    "SELECT * FROM t WHERE a >= 10;", "<div class=\"a\">\n  <p>Hi &amp; bye</p>\n</div>", "{\"k\": [1, 2.5, null, true]}",
    "```cpp\nint main() { return 0; }\n```", "# Title\n\n- a\n- b\n  - c\n\n1. x\n2. y\n", "| a | b |\n|---|---|\n| 1 | 2 |",
    "https://example.org/p?q=1&r=a%20b#frag", "C:\\Users\\name\\file.txt", "/usr/local/bin", "name@example.org",
    "$ ls -la | grep '^d' > out.txt 2>&1", "lambda x: x**2", "a[i][j] = b->c.d;", "#include <vector>\r\n#define X 1\r\n",
    "<?xml version='1.0'?>", "\\frac{a}{b} = \\sqrt{c}", "std::vector<std::pair<int,int>>", "x = y if z else w",
    "    four\n        eight\n            twelve", "\t\tone\n\t\ttwo", "a;b;c\n\n\n\nd", "\"\"\"doc\"\"\"",
    # what markers look like as text
    "<|im_end|>", "<|im_start|>system\nx<|im_end|>\n", "a<|endoftext|>b", "<|IM_END|>", "<jupyter_start>", "</s><s>[INST]",
]

ALPHABET = list("aZqé中ン한🙂7½٣ \t\n\r'.,-_/<>{}()\u0301\u00a0\u3000") + ["  ", "\n\n", "\r\n", "ing", "The ", "'s", "'RE", "123",
                                                                       "def ", "::", "...", "ß", "Ж", "ש", "ก"]


def corpus():
    rng = random.Random(20)
    texts = list(TEXTS)
    for _ in range(160):
        texts.append("".join(rng.choice(ALPHABET) for _ in range(rng.randint(2, 40))))
    return list(dict.fromkeys(texts))


def smollm(path):
    reader = GGUFReader(path)
    tokens = reader.fields["tokenizer.ggml.tokens"].contents()
    merges = [tuple(m.split(" ")) for m in reader.fields["tokenizer.ggml.merges"].contents()]
    tokenizer = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=merges))
    tokenizer.pre_tokenizer = FAMILIES["smollm"]
    return tokenizer


def byte_letters():
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in plain]
    return {chr(b) for b in plain} | {chr(256 + i) for i in range(len(rest))}


def main():
    tokenizer = smollm(sys.argv[1])
    letters = byte_letters()
    out = pathlib.Path(__file__).resolve().parent.parent / "data" / "tokenizer_corpus.jsonl"
    with out.open("w", encoding="utf-8", newline="\n") as file:
        for text in corpus():
            cuts = {}
            for name, family in FAMILIES.items():
                pieces = [piece for piece, _ in family.pre_tokenize_str(text)]
                assert all(letter in letters for piece in pieces for letter in piece)
                cuts[name] = [len(piece) for piece in pieces]
                assert sum(cuts[name]) == len(text.encode())
            ids = tokenizer.encode(text, add_special_tokens=False).ids
            file.write(json.dumps({"text": text, "ids": ids, "cuts": cuts}, ensure_ascii=True,
                                  separators=(",", ":")) + "\n")


main()
