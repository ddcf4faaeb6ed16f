"""Writes golden.jsonl: what Python's Jinja2 (3.1.6) prints with the settings of transformers.

Settings: ImmutableSandboxedEnvironment, trim_blocks, lstrip_blocks, loop controls, filter `tojson` over json.dumps
(ensure_ascii=False), functions raise_exception and strftime_now. Run it by hand; tests only read the result.
"""
import json
import pathlib

from jinja2.exceptions import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

CONTEXT = r'''{
  "i": 7, "neg": -3, "big": 123456789012345678901, "f": 1.0, "g": 0.1, "tiny": 1e-7, "huge": 1e16, "z": -0.0,
  "t": true, "n": null, "e": "", "s": "Hello World", "blank": " \t x \n", "emoji": "a\ud83d\ude00b\u00e9", "quote": "it's", "both": "it's \"so\"",
  "lines": "one\ntwo\r\nthree\n", "csv": "a,b,,c", "l": [1, 2.5, "x", null, true], "nums": [3, 1, 2], "words": ["b", "A", "c", "a"], "empty": [],
  "d": {"b": 1, "10": "ten", "2": null, "items": "shadow"}, "nested": {"a": {"b": [1, {"c": "deep"}]}},
  "people": [{"name": "Bo", "age": 3, "tags": ["x"]}, {"name": "al", "age": 1}, {"name": "Cy", "age": 2, "tags": []}],
  "messages": [{"role": "system", "content": "S"}, {"role": "user", "content": [{"type": "text", "text": "hi"}, {"type": "image"}]}, {"role": "tool", "content": null}]
}'''

EXPRESSIONS = r'''
i ¦ neg ¦ big ¦ f ¦ g ¦ tiny ¦ huge ¦ z ¦ t ¦ n ¦ e ¦ s ¦ emoji ¦ quote ¦ l ¦ d ¦ nested ¦ nope ¦ [quote, both, blank] ¦ {'a': 1, 'b': [none, true]}
(1, 'a') ¦ [1.5, -0.0] ¦ i + 1 ¦ i - 2.5 ¦ i * 2 ¦ i / 2 ¦ i // 2 ¦ neg // 2 ¦ neg % 2 ¦ i % 2.5 ¦ 2 ** 3 ¦ 2 ** -1 ¦ -i ¦ - i + 1 ¦ +i ¦ t + 1 ¦ f + 1 ¦ big + 1 ¦ i / 0 ¦ i % 0
'a' + 'b' ¦ 'a' ~ 1 ~ none ~ true ¦ 'a' + 1 ¦ 'a' * 3 ¦ 3 * 'a' ¦ [1] + [2] ¦ [1] * 2 ¦ 'a' + l ¦ nope + 'a' ¦ 'a' ~ nope ¦ n ~ 'x'
i == 7 ¦ i == 7.0 ¦ t == 1 ¦ 'a' == 'a' ¦ [1, 2] == [1, 2] ¦ {'a': 1} == {'a': 1} ¦ [1, 2] == (1, 2) ¦ n == none ¦ nope == none ¦ nope == nope2 ¦ i != 7 ¦ i < 8 ¦ 'a' < 'b' ¦ 'Z' < 'a' ¦ [1, 2] < [1, 3] ¦ 'a' < 1 ¦ n < 1 ¦ 1 <= 1.0 ¦ (i == 7) != (n == none) ¦ (1 < 2) < 3 ¦ i == 7 and 1 < 2 ¦ [1 == 1, 2 == 2] ¦ 1 in l and 1 not in empty ¦ {'a': 1 == 1, 'b': 2 < 1} ¦ (1 == 1 if 2 > 1 else 3 < 4)
1 in l ¦ 2.5 in l ¦ 'ell' in s ¦ 'b' in d ¦ 'zz' in d ¦ none in l ¦ 1 not in [2] ¦ 'a' in nope ¦ 'a' in n ¦ 1 in s ¦ true in [1]
t and 'x' ¦ e and 'x' ¦ e or 'x' ¦ n or 0 or [] ¦ not e ¦ not t ¦ 'a' if t else 'b' ¦ 'a' if e else 'b' ¦ 'a' if e ¦ ('a' if e) is defined ¦ 'x' if n else 'y' if t else 'z'
s | length ¦ emoji | length ¦ l | length ¦ d | length ¦ n | length ¦ nope | length ¦ 7 | length ¦ s[0] ¦ s[-1] ¦ s[99] ¦ emoji[1] ¦ emoji[::-1] ¦ s[1:4] ¦ s[::2] ¦ s[-3:] ¦ l[1:] ¦ l[::-1] ¦ l[5:1] ¦ l[-2] ¦ l[99] ¦ l['x'] ¦ n[0] ¦ n[0:1] ¦ (1, 2, 3)[1:] ¦ s[3:0:-1]
d.b ¦ d['b'] ¦ d['10'] ¦ d['items'] ¦ d.nope ¦ d.nope.nope ¦ nope.x ¦ nested.a.b[1].c ¦ n.x ¦ i.x ¦ s.x ¦ l.x ¦ d.get('b') ¦ d.get('q') ¦ d.get('q', 'dflt') ¦ d.keys() | list ¦ d.values() | list ¦ d.items() | list ¦ nested.items() | list ¦ l.append(1) ¦ d.update({}) ¦ l.index('x') ¦ l.count(1) ¦ l.index('q')
s.upper() ¦ s.lower() ¦ s.title() ¦ s.capitalize() ¦ blank.strip() ¦ blank.lstrip() ¦ blank.rstrip() ¦ 'xxaxx'.strip('x') ¦ 'xyaxy'.lstrip('yx') ¦ s.split() ¦ s.split('o') ¦ s.split('o', 1) ¦ csv.split(',') ¦ ' a  b '.split() ¦ ' a  b c '.split(none, 1) ¦ csv.rsplit(',', 1) ¦ lines.splitlines() ¦ s.startswith('He') ¦ s.endswith(('d', 'x')) ¦ s.replace('l', 'L') ¦ s.replace('l', 'L', 1) ¦ 'ab'.replace('', '-') ¦ s.find('World') ¦ s.find('zz') ¦ emoji.find('b') ¦ s.rfind('o') ¦ s.count('l') ¦ ','.join(['a', 'b']) ¦ ','.join([1]) ¦ s.partition(' ') ¦ s.rpartition('o') ¦ s.removeprefix('Hello ') ¦ s.removesuffix('World') ¦ '12'.isdigit() ¦ 'a1'.isalnum() ¦ 'ab'.isalpha() ¦ ' '.isspace() ¦ 'AB'.isupper() ¦ s.index('W') ¦ s.index('zz')
s | upper ¦ s | lower ¦ s | title ¦ 'foo-bar (baz)' | title ¦ s | capitalize ¦ blank | trim ¦ 'xxaxx' | trim('x') ¦ n | trim ¦ 7 | trim ¦ n | upper ¦ s | replace('o', '0') ¦ 7 | replace('7', '8') ¦ s | list ¦ d | list ¦ s | reverse ¦ l | reverse | list ¦ s | first ¦ s | last ¦ l | first ¦ empty | first ¦ l | last ¦ l | join ¦ l | join(', ') ¦ people | join(',', attribute='name') ¦ n | default('x') ¦ nope | default('x') ¦ e | default('x', true) ¦ e | default('x') ¦ nope | d ¦ n | string ¦ l | string ¦ 1.0 | string ¦ '3' | int ¦ '3.9' | int ¦ 'x' | int ¦ 3.9 | int ¦ '1e2' | float ¦ 'x' | float ¦ neg | abs ¦ n | abs
nums | sort ¦ nums | sort(reverse=true) ¦ words | sort ¦ words | sort(case_sensitive=true) ¦ people | sort(attribute='age') | map(attribute='name') | list ¦ nums | sum ¦ people | sum(attribute='age') ¦ nums | max ¦ nums | min ¦ words | unique | list ¦ ['a', 'A', 'b', 'a'] | unique | list ¦ d | dictsort ¦ {'b': 1, 'A': 2} | dictsort ¦ {'b': 1, 'a': 2} | dictsort(by='value') ¦ d | items | list ¦ n | items | list ¦ l | select | list ¦ l | select('string') | list ¦ l | reject('none') | list ¦ nums | select('gt', 1) | list ¦ people | selectattr('tags') | map(attribute='name') | list ¦ people | selectattr('age', 'ge', 2) | map(attribute='name') | list ¦ people | rejectattr('tags', 'defined') | map(attribute='name') | join ¦ people | map(attribute='tags', default='-') | list ¦ words | map('upper') | list ¦ words | map('replace', 'a', 'x') | join ¦ people | map(attribute='tags') | list | length
l | tojson ¦ d | tojson ¦ nested | tojson(indent=2) ¦ nested | tojson(indent=4) ¦ d | tojson(sort_keys=true) ¦ d | tojson(separators=(',', ':')) ¦ emoji | tojson ¦ emoji | tojson(ensure_ascii=true) ¦ both | tojson ¦ '<a&b>' | tojson ¦  [tiny, huge, z, big] | tojson ¦ nope | tojson ¦ (1, 2) | tojson ¦ {} | tojson(indent=2) ¦ [] | tojson(indent=2) ¦ {'a': {}, 'b': []} | tojson(indent=1) ¦ lines | tojson ¦ n | tojson ¦ t | tojson ¦ l | tojson | length
lines | indent ¦ lines | indent(2) ¦ lines | indent(2, true) ¦ 'a\n\nb' | indent(2) ¦ 'a\n\nb' | indent(2, false, true) ¦ 'a\nb' | indent('> ')
i is defined ¦ nope is defined ¦ nope is not defined ¦ nope is undefined ¦ n is none ¦ n is not none ¦ s is string ¦ d is mapping ¦ l is iterable ¦ l is sequence ¦ d is sequence ¦ s is sequence ¦ i is sequence ¦ s is iterable ¦ i is number ¦ t is number ¦ f is float ¦ i is integer ¦ t is integer ¦ t is boolean ¦ i is boolean ¦ t is true ¦ 1 is true ¦ e is false ¦ i is odd ¦ i is even ¦ range is callable ¦ s is lower ¦ 'ab' is lower ¦ 'AB' is upper ¦ d.nope is defined ¦ d.items is callable ¦ nope is none ¦ nope is string ¦ nope is iterable
range(3) | list ¦ range(1, 4) | list ¦ range(5, 0, -2) | list ¦ range(3)[1] ¦ range(3) | length ¦ dict(a=1, b=2) ¦ dict(a=1) | tojson ¦ namespace(a=1).a ¦ raise_exception('boom') ¦ nope() ¦ s() ¦ range('a') ¦ range(200000) | length
people | selectattr('tags') | list | length > 0 ¦ 'y' if people | selectattr('name', 'equalto', 'zz') else 'n' ¦ (l | select)[0] ¦ messages[-1].content is none ¦ messages[1].content[0]['text'] ¦ messages | length - 1 ¦ (messages | length - 1) ~ '!' ¦ not (s.startswith('H') and s.endswith('x')) ¦ s.split('o')[-1].lstrip('r') ¦ loop ¦ -1 | abs ¦ 'a' 'b' ¦ "tab\tq\"" ¦ true and not false ¦ True ¦ None ¦ [true, false, none] ¦ i in [7] and t ¦ 'x' ~ (i + 1) ¦ i if i > 5 and i < 8 else 0
'%' ¦ 'é' | upper ¦ 'ß' | upper ¦ 'İ' | lower ¦ '\\' ¦ ['\\', '\n', '\t', '\u00e9', '\u200b', '\x7f'] ¦ ['\ufeff', '\u00a0'] ¦ '\ufeffa' | trim | length ¦ '\u0085a\u2003' | trim | length ¦ '\x1ca' | trim | length
t is odd ¦ 7.0 is odd ¦ nope is callable ¦ i is lower ¦ l is lower ¦ n | select | list ¦ n | map('upper') | list ¦ 7 | indent ¦ nope | int ¦ true | abs ¦ 1 // 0.1 ¦ -7.5 // 2 ¦ people | unique | list ¦ [] in d ¦ (1, 2) | tojson ¦ emoji.strip('aé') ¦ (emoji ~ emoji[1]).rstrip(emoji[1]) ¦ (emoji[1] ~ emoji).lstrip(emoji[1]) ¦ ('  ' ~ blank).lstrip() | length
'''

BLOCKS = [
    "{% for x in l %}{{ loop.index }}/{{ loop.length }}{{ x }}{% if not loop.last %},{% endif %}{% endfor %}",
    "{% for x in nope %}x{% else %}none{% endfor %}",
    "{% for c in emoji %}[{{ c }}]{% endfor %}",
    "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}x{% endif %}{% endfor %}",
    "{% for x in nums if x in [1, 2] and x != 1 %}{{ x }}{% endfor %}",
    "{% for k in d %}{{ k }};{% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}",
    "{% for k, v in nested | dictsort %}{{ k }}{% endfor %}",
    "{% for a, b in [(1, 2), [3, 4]] %}{{ a + b }} {% endfor %}",
    "{% for a, b in [1] %}{% endfor %}",
    "{% for x in 5 %}{% endfor %}",
    "{% for x in n %}{% endfor %}",
    "{% for x in nums if x > 1 %}{{ x }}{{ loop.index }}{{ loop.last }} {% else %}-{% endfor %}",
    "{% for x in nums if x > 9 %}{{ x }}{% else %}-{% endfor %}",
    "{% for x in nums %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}",
    "{% for x in nums %}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% endfor %}",
    "{% for x in nums %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {% endfor %}",
    "{% for x in nums %}{{ loop.cycle('a', 'b') }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{% endfor %}",
    "{% for x in [1, 1, 2] %}{% if loop.changed(x) %}{{ x }}{% endif %}{% endfor %}",
    "{% for x in nums %}{% for y in words %}{{ loop.index }}{% endfor %}{{ loop.index0 }}{% endfor %}",
    "{% set x = 1 %}{% for y in nums %}{% set x = x + y %}{{ x }} {% endfor %}{{ x }}",
    "{% set ns = namespace(x=0) %}{% for y in nums %}{% set ns.x = ns.x + y %}{% endfor %}{{ ns.x }}",
    "{% set d.x = 1 %}",
    "{% set x = namespace({'a': 1}, b=2) %}{{ x.a }}{{ x.b }}{{ x.c }}",
    "{% set a, b = 1, 2 %}{{ a }}{{ b }}",
    "{% set x %}block {{ i }}{% endset %}[{{ x }}]",
    "{% if t %}{% set y = 1 %}{% endif %}{{ y }}",
    "{% if e %}a{% elif n %}b{% elif i %}c{% else %}d{% endif %}",
    "{% macro m(a, b='B', c=a) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }}|{{ m(1, 2) }}|{{ m(b=3, a=4) }}|{{ m() }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(q=2) }}",
    "{% macro m(a) %}{{ i }}{{ late }}{% endmacro %}{% set late = 'L' %}{{ m(1) }}",
    "{% macro m(x) %}{% if x > 0 %}{{ x }}{{ m(x - 1) }}{% endif %}{% endmacro %}{{ m(3) }}",
    "{% macro m() %}<{{ caller() }}>{% endmacro %}{% call m() %}in{% endcall %}",
    "{% macro m() %}<{{ caller(7) }}>{% endmacro %}{% call(v) m() %}in{{ v }}{% endcall %}",
    "{% macro m() %} a {% endmacro %}[{{ m() | trim }}][{{ m() | length }}]",
    "{% filter upper %}abc {{ i }}{% endfilter %}",
    "  {% if t %}\n  a\n  {% endif %}\n  b\n",
    "a  {%- if t %}  b  {%- endif -%}  c",
    "a {{- i -}} b",
    "{# comment #}\nx {#- c -#} y",
    "\n\n  {%- for x in nums -%}\n  {{ x }}\n  {%- endfor -%}\n\n",
    "line\r\nnext\rlast\n",
    "{{ i }}\n{{ i }}\n\n",
    "{% set x = people | selectattr('tags') %}{% for p in x %}{{ p.name }}{% endfor %}{% for p in x %}{{ p.name }}{% endfor %}",
    "{% set x = nums | map('string') %}{{ x | join }}{{ x | join }}",
    "{% for m in messages %}{{ m['role'] + ': ' }}{{ m.content if m.content is string else m.content | tojson }}\n{% endfor %}",
    "{% for m in messages[::-1] %}{% set index = (messages | length - 1) - loop.index0 %}{{ index }}{{ m.role }}{% endfor %}",
    "{% if messages[0].role == 'system' %}{% set sys = messages[0].content %}{% set rest = messages[1:] %}{% else %}{% set sys = '' %}{% endif %}{{ sys }}{{ rest | length }}",
    "{%- for x in [1,2] %}\n{{- x }}\n{%- endfor %}",
    "{% generation %}x{% endgeneration %}",
]


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    def raise_exception(message):
        raise TemplateError(message)

    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    return env


def main():
    env = environment()
    expressions = [e.strip() for line in EXPRESSIONS.strip().split("\n") for e in line.split("¦")]
    templates = ["{{ " + e + " }}" for e in expressions] + [b for b in BLOCKS if "generation" not in b]
    folder = pathlib.Path(__file__).parent
    with open(folder / "golden.jsonl", "w", encoding="utf-8") as out:
        out.write(json.dumps({"context": CONTEXT}, ensure_ascii=True) + "\n")
        for template in templates:
            try:
                case = {"template": template, "text": env.from_string(template).render(**json.loads(CONTEXT))}
            except Exception as error:
                case = {"template": template, "error": f"{type(error).__name__}: {error}"}
            out.write(json.dumps(case, ensure_ascii=True) + "\n")


main()
