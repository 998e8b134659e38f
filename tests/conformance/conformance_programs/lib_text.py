"""Library: string, re, textwrap, difflib, shlex, fnmatch, keyword, json, pprint, reprlib, struct, base64, binascii,
zlib, hashlib, uuid, urllib.parse, pathlib."""

from __future__ import annotations

import base64
import binascii
import difflib
import fnmatch
import hashlib
import json
import keyword
import pathlib
import pprint
import re
import reprlib
import shlex
import string
import struct
import textwrap
import urllib.parse
import uuid
import zlib

from conformance_programs import add_source, error_of, program

PURE = {
    "string": {
        "constants": "string.ascii_letters, string.ascii_lowercase, string.ascii_uppercase, string.digits, "
        "string.hexdigits, string.octdigits, string.printable, string.punctuation, string.whitespace",
        "capwords": "string.capwords('a bc  d'), string.capwords('a-b', '-')",
        "Template": "string.Template('$a ${b} $$').substitute(a=n, b='q'), string.Template('$a $c').safe_substitute(a=1)",
        "Template_errors": "error_of(string.Template('$a').substitute), string.Template('$a $b').get_identifiers()",
        "Formatter": "string.Formatter().format('{0} {k!r:>5}', n, k='a'), list(string.Formatter().parse('a{b:c}d'))",
    },
    "re": {
        "match": "re.match(r'(\\w)(?P<n>\\d+)', f'a{n}b').groups(), re.match('z', 'a')",
        "search": "re.search(r'\\d+', 'ab12').span(), re.search('b', 'abc').start(), re.search('b', 'abc')[0]",
        "fullmatch": "bool(re.fullmatch('a+', 'aaa')), re.fullmatch('a', 'ab')",
        "findall": "re.findall(r'\\d', 'a1b2'), re.findall(r'(\\w)=(\\d)', 'a=1 b=2')",
        "finditer": "[m.group() for m in re.finditer('[ab]', 'xaxb')]",
        "split": "re.split(r'[,;]', 'a,b;c', maxsplit=1), re.split('(,)', 'a,b')",
        "sub": "re.sub(r'(\\d)', r'<\\1>', f'a{n}'), re.subn('a', 'b', 'aa', count=1)",
        "sub_function": "re.sub(r'\\d', lambda m: str(int(m.group()) * n), 'a1b2')",
        "compile": "re.compile('A', re.I).findall('aA'), re.compile('(?P<k>a)').groupindex['k'], re.compile('a').pattern",
        "flags": "re.findall('^a', 'a\\na', re.M), re.search('a.b', 'a\\nb', re.S) is not None, re.X | re.I",
        "escape": "re.escape('a.b*c')",
        "groupdict": "re.match('(?P<a>.)(?P<b>.)?', 'x').groupdict(default=n)",
        "error": "error_of(re.compile, '(')[0], error_of(re.match, 1, 'a')[0]",
        "expand": "re.match('(a)(b)', 'ab').expand(r'\\2\\1'), re.match('a', 'a').string, re.purge()",
    },
    "textwrap": {
        "wrap": "textwrap.wrap('the quick brown fox jumps', width=10)",
        "fill": "textwrap.fill('the quick brown fox', 8, initial_indent='* ', subsequent_indent='  ')",
        "dedent": "textwrap.dedent('  a\\n    b\\n'), textwrap.indent('a\\nb', '> ')",
        "shorten": "textwrap.shorten('hello big world', 10, placeholder='...')",
        "TextWrapper": "textwrap.TextWrapper(width=n * 4).wrap('one two three four five')",
    },
    "difflib": {
        "ndiff": "list(difflib.ndiff(['a', 'b'], ['a', 'c']))",
        "unified_diff": "list(difflib.unified_diff(['a'], ['b'], 'x', 'y', lineterm=''))",
        "context_diff": "list(difflib.context_diff(['a'], ['b'], lineterm=''))",
        "get_close_matches": "difflib.get_close_matches('appel', ['ape', 'apple', 'peach'])",
        "SequenceMatcher": "difflib.SequenceMatcher(None, 'abcd', 'bcde').ratio(), "
        "difflib.SequenceMatcher(None, 'ab', 'ac').get_opcodes()",
    },
    "shlex": {
        "split": "shlex.split('a \"b c\" d'), shlex.quote('a b'), shlex.join(['a', 'b c'])",
    },
    "fnmatch": {
        "fnmatch": "fnmatch.fnmatch('a.py', '*.py'), fnmatch.fnmatchcase('A', 'a'), fnmatch.filter(['a', 'b'], '[a]')",
        "translate": "fnmatch.translate('*.t?t')",
    },
    "keyword": {
        "iskeyword": "keyword.iskeyword('for'), keyword.issoftkeyword('match'), len(keyword.kwlist), keyword.softkwlist",
    },
    "json": {
        "dumps": "json.dumps({'a': [1, 2.5, None, True], 'b': 'q\\u00e9', 'n': n})",
        "dumps_options": "json.dumps({'b': 1, 'a': {'c': [1]}}, indent=2, sort_keys=True, separators=(',', ':'))",
        "dumps_default": "json.dumps({'x': 1j}, default=str), error_of(json.dumps, object)[0]",
        "loads": "json.loads('{\"a\": [1, 2.5, null, true]}'), json.loads('\"\\\\u00e9\"')",
        "loads_hooks": "json.loads('{\"a\": 1}', object_hook=lambda d: sorted(d)), json.loads('1.5', parse_float=str)",
        "errors": "error_of(json.loads, '{')",
        "roundtrip": "json.loads(json.dumps([n, {'k': 'v'}]))",
        "Encoder": "json.JSONEncoder(ensure_ascii=False).encode(['\\u00e9']), json.JSONDecoder().decode('[1]')",
    },
    "pprint": {
        "pformat": "pprint.pformat({'b': [1] * 30, 'a': (1, 2)}), pprint.pformat('a' * 100, width=30)",
        "isreadable": "pprint.isreadable([1]), pprint.saferepr([1, 2]), pprint.isrecursive([1])",
    },
    "reprlib": {
        "repr": "reprlib.repr(list(range(100))), reprlib.Repr().repr('a' * 100)",
    },
    "struct": {
        "pack": "struct.pack('<if', n, 1.5), struct.pack('>3sh', b'abc', -1)",
        "unpack": "struct.unpack('<HB', b'\\x01\\x00\\x02'), list(struct.iter_unpack('B', b'ab'))",
        "calcsize": "struct.calcsize('iid'), struct.Struct('<i').size, struct.Struct('<i').pack(n)",
        "unpack_from": "struct.unpack_from('<h', b'\\x00\\x01\\x00', 1), error_of(struct.pack, 'B', 300)",
    },
    "base64": {
        "b64": "base64.b64encode(b'abc'), base64.b64decode('YWJj'), base64.urlsafe_b64encode(b'\\xff\\xfe')",
        "b32": "base64.b32encode(b'ab'), base64.b32decode(b'MFRA===='), base64.b16encode(b'a'), base64.b85encode(b'abcd')",
        "standard": "base64.standard_b64encode(b'q'), base64.encodebytes(b'q' * 3), base64.decodebytes(b'cQ==')",
    },
    "binascii": {
        "hexlify": "binascii.hexlify(b'ab'), binascii.unhexlify('6162'), binascii.crc32(b'abc'), binascii.b2a_base64(b'a')",
    },
    "zlib": {
        "compress": "zlib.decompress(zlib.compress(b'a' * 100)), zlib.crc32(b'abc'), zlib.adler32(b'abc')",
    },
    "hashlib": {
        "sha256": "hashlib.sha256(b'abc').hexdigest(), hashlib.md5(b'a').digest()",
    },
    "uuid": {
        "UUID": "uuid.UUID(int=n), str(uuid.UUID('12345678123456781234567812345678')), uuid.UUID(int=5).hex",
        "uuid5": "uuid.uuid5(uuid.NAMESPACE_DNS, 'python.org'), uuid.uuid3(uuid.NAMESPACE_URL, 'a')",
    },
    "urllib_parse": {
        "urlparse": "urllib.parse.urlparse('http://u@h:8/p;q?a=1#f'), urllib.parse.urlsplit('//h/p').netloc",
        "quote": "urllib.parse.quote('a b/c'), urllib.parse.quote_plus('a b'), urllib.parse.unquote('a%20b')",
        "urlencode": "urllib.parse.urlencode({'a': n, 'b': ['x', 'y']}, doseq=True)",
        "parse_qs": "urllib.parse.parse_qs('a=1&a=2&b='), urllib.parse.parse_qsl('a=1&b=2')",
        "urljoin": "urllib.parse.urljoin('http://h/a/b', '../c'), urllib.parse.urlunsplit(('s', 'h', '/p', '', ''))",
        "urldefrag": "urllib.parse.urldefrag('http://h/p#f').url",
    },
    "pathlib": {
        "PurePath": "pathlib.PurePosixPath('/a/b.tar.gz').name, pathlib.PurePosixPath('a', 'b', '..').parts",
        "suffixes": "pathlib.PurePosixPath('/a/b.tar.gz').suffixes, pathlib.PurePosixPath('a.b').stem",
        "joining": "pathlib.PurePosixPath('a') / 'b' / str(n), str(pathlib.PurePath('a').joinpath('b'))",
        "with_name": "pathlib.PurePosixPath('a/b.c').with_suffix('.d'), pathlib.PurePosixPath('a/b').with_name('q')",
        "relative": "pathlib.PurePosixPath('/a/b').relative_to('/a'), pathlib.PurePosixPath('/a/b').is_relative_to('/c')",
        "parents": "[str(p) for p in pathlib.PurePosixPath('/a/b/c').parents], pathlib.PurePosixPath('a/b').parent",
        "match": "pathlib.PurePosixPath('a/b.py').match('*.py'), pathlib.PurePosixPath('a') < pathlib.PurePosixPath('b')",
        "windows": "pathlib.PureWindowsPath('C:/a/b').drive, pathlib.PureWindowsPath('a') == pathlib.PureWindowsPath('A')",
    },
}
BREAKING: dict[str, str] = {}
"""Program -> why it breaks."""

_MODULES = "import " + ", ".join(name.replace("_", ".") for name in PURE)
for _module, _cases in PURE.items():
    for _name, _use in _cases.items():
        add_source(
            f"lib_text::{_module}_{_name}",
            f"{_MODULES}\nfrom conformance_programs import error_of\n"
            f"def f(x):\n    n = x.numel()\n    return x * n, ({_use})\n",
            breaks=BREAKING.get(f"{_module}_{_name}", ()),
        )

_PATTERN = re.compile(r"(?P<name>\w+)=(?P<value>\d+)")


@program(given=lambda: ("a=1 b=22", re.compile(r"\d+")))
def given_patterns_and_texts(x, text, digits):
    return x * len(digits.findall(text)), [m["name"] for m in _PATTERN.finditer(text)], digits.sub("#", text)


@program
def a_match_is_kept(x):
    match = _PATTERN.match("a=1")
    return x * int(match["value"]), match is not None, match.groupdict()


@program
def a_template_class(x):
    class Percent(string.Template):
        delimiter = "%"

    return Percent("%a $b").substitute(a=x.dim()), x + 1


@program
def a_json_encoder_class(x):
    class Encoder(json.JSONEncoder):
        def default(self, value):
            return list(value.shape)

    return x + 1, json.dumps({"t": x}, cls=Encoder), error_of(json.dumps, {"t": x})[0]


@program
def recursive_repr_stops(x):
    class Node:
        def __init__(self):
            self.me = self

        @reprlib.recursive_repr()
        def __repr__(self):
            return f"Node({self.me!r})"

    return x + 1, repr(Node())


@program(given=lambda: (pathlib.PurePosixPath("/a/b"),))
def a_given_path(x, path):
    return x + 1, str(path / "c"), path.name


@program(breaks="run-time effect")
def reading_a_path_is_an_effect(x):
    y = x + 1
    return y * 2, pathlib.Path("/nowhere/at/all").exists()


@program(breaks="run-time effect")
def a_random_uuid(x):
    y = x + 1
    return y * 2, uuid.uuid4().version


@program(breaks="opaque object")
def pretty_printing(x):
    y = x + 1
    pprint.pprint({"a": 1})
    return y


assert all((base64, binascii, difflib, fnmatch, hashlib, keyword, shlex, struct, textwrap, urllib, zlib))
