"""f-strings, format, percent formatting, and text processing."""

from programs import error_of


def f_strings_with_every_conversion():
    x, s = 42, "it's"
    return [
        f"{x}",
        f"{s!r}",
        f"{s!s}",
        f"{'é'!a}",
        f"{x!r:>5}",
        f"{s!a:*^9}",
        f"{s!s:.2}",
        f"{x:05d}",
        f"{{}}",
        f"{x}{s}",
    ]


def f_strings_with_nested_specifications():
    width, precision, value = 10, 3, 3.14159
    return f"{value:{width}.{precision}f}|{value:<{width}}|{value!r:>{width}}|{'x':{'*'}^{width}}"


def f_strings_with_the_equals_sign():
    x, y = 1, [2]
    return f"{x=}", f"{x = }", f"{y[0]+x=}", f"{x=:>4}", f"{y=!s}", f"{'a'=}"


def f_strings_with_expressions():
    d, f = {"k": [1, 2]}, lambda a: a * 2
    return (
        f"{d['k'][1]} {f(3)} {1 if d else 2} {[i for i in range(3)]} {(lambda: 5)()} {not d}",
        f"{'ab'}c{1}",
    )


def f_strings_evaluate_left_to_right():
    def say(x):
        print(x)
        return x

    return f"{say(1)} {say(2):{say(5)}} {say(3)!r}"


def f_string_errors():
    class Bad:
        def __format__(self, spec):
            raise ValueError(f"bad spec {spec}")

    return (
        error_of(lambda: f"{Bad():x}"),
        error_of(lambda: f"{1:s}"),
        error_of(lambda: f"{'a':d}"),
        error_of(lambda: f"{[]:5}"),
    )


def an_f_string_error_leaves_the_program():
    value = "text"
    return f"{value:>10} {value:.2f}"


def multi_line_and_raw_strings():
    name = "x"
    return (
        """line 1
line 2""",
        rf"\n{name}\t",
        f"""{name}""",
        "abc",
        r"\d+",
        "tab\tand \N{BULLET} and \u00e9 and \x41",
    )


def numbers_in_format_specifications():
    n, f = 1234567, 1234.5678
    return [
        f"{n:,}",
        f"{n:_}",
        f"{n:x}",
        f"{n:#X}",
        f"{n:b}",
        f"{255:#o}",
        f"{n:e}",
        f"{f:.2f}",
        f"{f:,.1f}",
        f"{f:g}",
        f"{0.25:%}",
        f"{-5:+d}",
        f"{5:+d}",
        f"{5: d}",
        f"{-5:=+6d}",
        f"{5:^7}",
        f"{True:d}",
        f"{65:c}",
        f"{1e10}",
        f"{float('inf'):5}",
    ]


def str_format_with_fields_of_every_kind():
    class P:
        x = 5

        def __getitem__(self, key):
            return f"item {key}"

    return [
        "{} {}".format(1, 2),
        "{1} {0}".format("a", "b"),
        "{a} {b}".format(a=1, b=2),
        "{0.x} {0[k]} {0[1]}".format(P()),
        "{:>{w}}".format("r", w=5),
        "{!r}".format("q"),
        "{a[k]}".format(a={"k": "v"}),
        "{{{}}}".format(1),
        "{x}".format_map({"x": 1}),
        error_of(lambda: "{} {}".format(1)),
        error_of(lambda: "{a}".format()),
    ]


def percent_formatting():
    return [
        "%s %r %d %5.2f %x" % ("s", "r", 5, 3.14159, 255),
        "%-5s|%5s|%05d" % ("a", "b", 42),
        "%(k)s" % {"k": 1},
        "%c%%" % 65,
        "%s" % (("tuple",),),
        "%*d" % (5, 3),
        error_of(lambda: "%s %s" % "one"),
        error_of(lambda: "%d" % "x"),
        error_of(lambda: "%s" % (1, 2)),
    ]


def string_methods():
    s = "Hello, World"
    return [
        s.lower(),
        s.upper(),
        s.swapcase(),
        s.title(),
        s.split(", "),
        s.partition(","),
        s.rpartition("o"),
        s.replace("o", "0", 1),
        s.find("o"),
        s.rfind("o"),
        s.find("z"),
        s.count("l"),
        s.startswith(("He", "X")),
        s.endswith("d"),
        s.center(20, "*"),
        s.ljust(14, "."),
        "  x ".strip(),
        "xxaxx".strip("x"),
        "7".zfill(3),
        "-7".zfill(4),
        s.removeprefix("Hello"),
        s.removesuffix("!"),
        "a,b,,c".split(","),
        " a  b ".split(),
        "a\nb\r\nc".splitlines(),
        "-".join("abc"),
        "ab".isalpha(),
        "١".isdigit(),
        s.translate(str.maketrans("lo", "01", ",")),
        s.casefold(),
        "a\tb".expandtabs(4),
        s.encode(),
        "%" * 3,
        s[::-1],
    ]


def string_comparison_and_containment():
    return [
        "a" < "b",
        "Z" < "a",
        "abc" in "xabcx",
        "" in "a",
        "a" * 3 == "aaa",
        "a" != "A",
        "abc" > "abb",
        "10" < "9",
    ]


def strings_are_immutable():
    s = "abc"

    def set_item():
        s[0] = "x"

    def delete_item():
        del s[0]

    return error_of(set_item), error_of(delete_item), error_of(lambda: s.nope)


def bytes_and_bytearrays():
    b, ba = b"abc\x00", bytearray(b"xyz")
    ba[0] = 65
    ba += b"!"
    ba[1:2] = b"--"
    del ba[-1]
    return [
        b[0],
        b[1:],
        list(b),
        b.hex(),
        bytes.fromhex("ff00"),
        ba,
        bytes(ba),
        b + ba,
        b"%d" % 5,
        b"a,b".split(b","),
        b"abc".decode(),
        error_of(lambda: b + "s"),
    ]


def encoding_and_decoding():
    text = "naïve café ☕"
    data = text.encode("utf-8")
    return [
        len(text),
        len(data),
        data.decode(),
        text.encode("ascii", "replace"),
        text.encode("ascii", "ignore"),
        text.encode("ascii", "xmlcharrefreplace"),
        text.encode("latin-1", "backslashreplace"),
        b"\xff".decode("utf-8", "replace"),
    ]


def str_subclasses():
    class Shout(str):
        def __str__(self):
            return "str of shout"

        def __format__(self, spec):
            return f"formatted<{spec}>"

        def __add__(self, other):
            return Shout(str.__add__(self, other))

        def upper(self):
            return super().upper() + "!"

    s = Shout("hey")
    return (
        f"{s}",
        f"{s:x}",
        "%s" % s,
        str(s),
        s.upper(),
        type(s + "a").__name__,
        type(s * 2).__name__,
        "".join([s]),
        s == "hey",
    )


def a_text_wrapper():
    def wrap(text, width):
        lines, line = [], ""
        for word in text.split():
            if len(line) + len(word) + bool(line) > width:
                lines.append(line)
                line = word
            else:
                line = f"{line} {word}" if line else word
        return lines + [line] if line else lines

    text = "the quick brown fox jumps over the lazy dog and runs away"
    for line in wrap(text, 16):
        print(f"|{line:<16}|")
    return [len(wrap(text, w)) for w in (10, 20, 30)], wrap("", 5)


def a_table_printer():
    rows = [("name", "qty", "price"), ("apple", 3, 1.5), ("watermelon", 10, 22.25), ("fig", 0, 0.1)]
    widths = [max(len(str(row[i])) for row in rows) for i in range(3)]
    for i, row in enumerate(rows):
        cells = [
            f"{cell:>{w}.2f}" if isinstance(cell, float) else f"{cell!s:{'<' if i == 0 else '>'}{w}}"
            for cell, w in zip(row, widths)
        ]
        print(" | ".join(cells))
        if i == 0:
            print("-+-".join("-" * w for w in widths))
    return widths


def a_template_engine():
    import re

    def render(template, **context):
        def lookup(path):
            value = context
            for part in path.split("."):
                value = value[part] if isinstance(value, dict) else getattr(value, part)
            return value

        def replace(match):
            name, _, filters = match.group(1).partition("|")
            value = lookup(name.strip())
            for f in filter(None, map(str.strip, filters.split("|"))):
                value = {"upper": str.upper, "len": len, "join": ", ".join, "repr": repr}[f](value)
            return str(value)

        return re.sub(r"\{\{(.*?)\}\}", replace, template)

    page = "Hi {{ user.name | upper }}, you have {{items|len}}: {{ items | join }} {{ user.name|repr }}"
    return render(page, user={"name": "ann"}, items=["x", "y"]), error_of(lambda: render("{{ missing }}"))


def caesar_and_vigenere_ciphers():
    def shift(c, k):
        if not c.isalpha():
            return c
        base = ord("A") if c.isupper() else ord("a")
        return chr((ord(c) - base + k) % 26 + base)

    def caesar(text, k):
        return "".join(shift(c, k) for c in text)

    def vigenere(text, key, sign=1):
        out, i = [], 0
        for c in text:
            if c.isalpha():
                out.append(shift(c, sign * (ord(key[i % len(key)]) - 97)))
                i += 1
            else:
                out.append(c)
        return "".join(out)

    secret = vigenere("Attack at Dawn!", "lemon")
    return caesar("Hello, World", 3), caesar(caesar("Hello", 3), -3), secret, vigenere(secret, "lemon", -1)


def a_tokenizer_with_regular_expressions():
    import re

    kinds = [
        ("number", r"\d+(\.\d*)?"),
        ("name", r"[A-Za-z_]\w*"),
        ("op", r"[-+*/=()]"),
        ("space", r"\s+"),
        ("bad", r"."),
    ]
    pattern = re.compile("|".join(f"(?P<{name}>{regex})" for name, regex in kinds))

    def tokens(text):
        for m in pattern.finditer(text):
            kind, value = m.lastgroup, m.group()
            if kind == "space":
                continue
            if kind == "bad":
                raise SyntaxError(f"{value!r} at {m.start()}")
            yield kind, float(value) if "." in value else int(value) if kind == "number" else value

    return list(tokens("x1 = 3.5*(y + 42)")), error_of(lambda: list(tokens("a ? b")))


def an_empty_formatted_string():
    return ["before", f"", f"", len(f"")]
