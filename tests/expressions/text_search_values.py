"""Texts as the parser of text search meets them, and queries as people write them: a line each."""

from __future__ import annotations

TEXTS = r"""
The quick brown Fox jumped over the lazy dog
a a b A b c a
foo-bar foo-bar-baz x-1 1-x a-b2-c
http://www.example.com/path/to/page.html?x=1&y=2#z
www.example.com example.com/path user@example.com u.s.e-r@mail.example.co.uk
ftp://host:8080/ localhost:80 a.b.c.d 1.2.3.4 10.0.0.1:80/x
1 12 -3 +4 1.5 -2.5e10 3e5 1e-3 1.2.3 v1.2.3 1.2.3.4.5 .5 5.
/usr/local/bin/x.sh ~/file ../up ./here file.txt dir/file.tar.gz C:\dir
<b>bold</b> <a href="x.html" title='y'>link</a> <br/> <!-- comment --> <?xml version="1.0"?> <!DOCTYPE html>
<script>ignored words</script> after <style>p {}</style> end
&amp; &lt; &#65; &#x41; &nbsp &unknown; a&b
under_score _lead trail_ a_b.c-d
O'Reilly it's "quoted" (parens) [brackets] {braces} semi;colon,comma
caféé Ünïcödé ÄÖÜ straße ПРИВЕТ мир 日本語 テスト
naïve-ish über-cool ñandú-2 2-ñandú é1 1é
a1 1a a1b2 123abc abc123def 1st 2nd x86_64
-dash --double a- -b a--b a - b
e.g. i.e. U.S.A. etc. Mr. Smith
tab	and  spaces
emoji 😀 test ½ ² ①
b/c a/b a\b a:b a::b a;b a=b a+b a*b
foo@bar @foo foo@ foo@bar.baz foo@bar.baz/qux foo.bar@baz
1,000,000 3:45pm 2024-01-15 2024/01/15 12:34:56
a.b.c. a..b ...a a...
x.y.z/w?q=1 http:// https:// //x /x/ /
http://a http://a.b http://a.b/ http://a.b:1/c ../../x ..x
1e 1e+ 1e5x 1.e5 1.5.e 1.2e3.4 12-34 12_34 12@34.com
123.456.789 a.1 1.a a1.b2 1a.2b host-1.example.org
<not a tag < 5 > 3 a<b>c</ x> <1> <_x> <:y> <x
""".strip("\n").splitlines()
QUERIES = r"""
fat & rat
fat & (rat | cat)
!fat
fat <-> rat
fat <2> rat & !cat
'fat rat' & cat
fat:ab & rat:*
sup:*A
foo-bar
foo-bar & http://example.com/x
<b> & cat
a & <b> <-> cat
(a & b) | !(c <-> d)
a &
& a
a b
(a
a)
()
:a
a <->
a <99999> b
a <-> b <-> c
'it''s' | 'a\'b' | a\ b
'unclosed
a\
"quoted phrase" -excluded word
a or b OR c
or a
a or
a or-b orb
-a -"b c"
"unclosed phrase
a & b ! c
-
"" a
x -- y
"<b>" or cat
a <b> c "d <i> e"
/usr/bin file.txt 1.5 user@example.com
a:b c:*
ÄÖ or ПРИВЕТ
""".strip("\n").splitlines()
