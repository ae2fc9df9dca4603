"""An expression or more for every function, whose values Spark computes as well. Functions are found by their text."""

ARITHMETIC = """
i % k; l % 7; d % 2.5D; pmod(i, k); pmod(l, -7L); pmod(d, 2D); mod(i, 3); l div 3; i div k; i / k; d / 2D; l / 3
f / 2; m / k; m / 1.5
cast(i as bigint) + 1; cast(i as bigint) - l % 5; y * k; y + k; y * 1S; h + i % 5; f * 2; f + 0.1; d * 2; d + i
d - 0.1; -r; negative(d); positive(i)
m + 1; m - 1.5; m * m; m * 2; m % 7; m div 3; pmod(m, 7.5); -m; w + 1; w * 2.50; w / 3; m + w; m * w; m = 1; m > i
m + d; m + l % 100
abs(d); abs(m); abs(h / 2); abs(f); sign(d); signum(m); floor(r); ceil(r); ceiling(f / 3.0e9 * 0)
floor(cast(i as double) / 7); ceil(l / 3D); floor(m); ceil(m); floor(i); floor(r, 1); ceil(m, 1); ceil(w, -1)
round(d); round(d, 2); round(r, 1); round(m, 1); round(m); round(i, 0); round(h / 2, -1); round(k, -1); round(f, 2)
round(w, 3); round(m, -2); bround(d, 1); bround(m, 1); bround(k, -1); bround(r)
sqrt(d); cbrt(d); exp(r); expm1(r); ln(d); log(d); log(2, d); log(3D, d); log10(d); log2(d); log1p(r); pow(r, 2)
power(d, 0.5); hypot(r, k); factorial(k); e(); pi()
acos(r); asin(r); atan(d); atan2(r, d); acosh(d); asinh(r); atanh(r); sin(r); cos(r); tan(r); sinh(r); cosh(r)
tanh(d); cot(r); csc(r); sec(r); degrees(r); radians(d); rint(d)
greatest(d, r); least(d, r); greatest(i, l); least(s, t); greatest(s, t, 'm'); greatest(dt, dt2); least(m, 1)
greatest(ai, ai2); least(b, true); greatest(ts, ts2)
isnan(d); isnan(f); nanvl(d, 1D); width_bucket(r, -1D, 1D, 4); width_bucket(d, 10D, -10D, k)
try_add(i, k); try_add(l, 1L); try_subtract(i, 5); try_subtract(l, l); try_multiply(i, i); try_multiply(l, 2L)
try_divide(i, n); try_divide(d, r); try_mod(i, n); try_add(d, r); try_divide(m, n); try_add(y, y)
i & k; i | k; i ^ l; ~i; ~l; bit_count(i); bit_count(l); bit_count(b); bit_get(l, k); getbit(i, 3); shiftleft(i, k)
shiftleft(l, 3); shiftright(i, 2); shiftright(l, k); shiftrightunsigned(i, 2); shiftrightunsigned(l, 3)
hex(l); hex(i); hex(s); hex(x); unhex(hex(s)); unhex('zz'); unhex('abc'); bin(l); bin(k); conv(si, 10, 16)
conv('ff', 16, 10); conv('-10', 16, -10); conv(t, 36, 2)
"""
LOGIC = """
d = r; d <> r; d < r; d <= r; d > r; d >= r; d = 0; f > r; i = l; i < 1.5; l >= 2.5; s = t; s < t; s >= 'b'
dt = dt2; dt < dt2; ts > ts2; dt <= ts; tz = ts; b = true; m = 2.25; x = x; x < X'61'; st = st; ai = ai2; ai < ai2
st < named_struct('a', 1, 'b', 'x')
d <=> r; s <=> null; ai <=> ai2; equal_null(i, l); m <=> 1; b and d > 0; b or i > 0; not b; !b; b is true
b is not false; i is null; s is not null; isnull(d); isnotnull(d); i is distinct from k
i between 0 and 10; d between -1 and 1; i in (1, 2, 3); i in (1, null); s in ('a', 'abc'); d in (0, 1.5)
not i in (1); dt in (date'1970-01-01'); m in (1, 2.25)
coalesce(i, l, 0); ifnull(s, t); nvl(d, 0); nvl2(i, s, t); nullif(i, 1); nullif(s, 'a'); nullifzero(i)
zeroifnull(l); if(b, i, l); if(d > 0, 'p', 'n'); case when i > 0 then 1.5 when i < 0 then i else 0 end
case s when 'a' then 1 when 'abc' then 2 end; decode(i, 1, 'one', 2, 'two', 'many'); decode(i, 1, 'one')
case when b then ai else ai2 end; coalesce(ai, ai2); if(b, st, null); coalesce(m, 0); if(b, dt, ts)
nullif(ai, array(1)); k <> 1 and 10 / (k - 1) > 2; k = 1 or 10 / (k - 1) > 2
typeof(i); typeof(m * m); typeof(ai); typeof(st); assert_true(i is null or i is not null); current_timezone()
"""
STRINGS = """
length(s); length(x); char_length(s); character_length(s); len(s); octet_length(s); bit_length(s); octet_length(x)
bit_length(x); lower(s); lcase(s); upper(s); ucase(s); initcap(lower(s)); ascii(s); chr(k + 64); char(l); chr(i)
trim(s); ltrim(s); rtrim(s); btrim(s); btrim(s, 'a'); trim(both 'a' from s); trim(leading 'a' from s)
trim(trailing 'r' from s); ltrim('a', s); trim('ab' from s)
substring(s, 2); substring(s, n, 3); substr(s, n); substring(s, -3, 2); substring(s, 0, 2); substring(x, 2, 1)
left(s, 3); left(s, n); right(s, 2); right(s, n); substring_index(s, t, n); substring_index('a.b.c', '.', n)
substring_index('aaa', 'aa', -1); split_part(s, ' ', k); split_part(s, 'a', -1)
concat(s, t); concat(s, i, b); concat(s, d); s || t; concat_ws(',', s, t, null); concat_ws('-', asx, s)
concat(x, x); concat(ai, ai2); elt(k % 2 + 1, s, t); repeat(s, n); replace(s, 'a', 'XY'); replace(s, t); reverse(s)
space(n); translate(s, 'abc', 'xy')
contains(s, t); startswith(s, t); endswith(s, t); instr(s, t); locate(t, s); locate('a', s, 2); locate(t, s, n)
position('o' in s); position('o', s); lpad(s, 7, 'xy'); rpad(s, 7, 'xy'); lpad(s, n); rpad(s, 3); lpad(s, 9, '')
lpad(x, 4, X'01'); overlay(s placing 'ZZ' from 2); overlay(s, 'QQ', 3, 1); overlay(s, t, k, k)
find_in_set(t, 'a,b,ab'); find_in_set(t, s)
base64(x); unbase64(base64(x)); encode(t, 'UTF-8'); decode(encode(s, 'UTF-8'), 'utf-8'); encode(t, 'UTF-16BE')
decode(X'0061', 'UTF-16BE'); soundex(s); soundex('Tymczak'); soundex('Pfister'); soundex('Honeyman')
levenshtein(s, t); levenshtein(s, 'hello', 3); luhn_check(si); luhn_check('4111111111111111'); mask(s)
mask(s, 'U', 'l', 'd', 'o')
format_number(l, 2); format_number(m, 1); format_number(f, 3); format_string('%d|%5d|%-5d|%05d', i, i, i, i)
format_string('%s|%10s|%.2f', s, t, r); printf('%x %o %c %%', k, k, 65); format_string('%,d %e %b', l, r, b)
quote(t); is_valid_utf8(s); make_valid_utf8(s); validate_utf8(s); try_validate_utf8(s)
url_encode(s); url_decode(url_encode(s)); try_url_decode('%zz'); try_url_decode('a%20b+c'); parse_url(u, 'HOST')
parse_url(u, 'PATH'); parse_url(u, 'QUERY'); parse_url(u, 'QUERY', 'k'); parse_url(u, 'REF')
parse_url(u, 'PROTOCOL'); parse_url(u, 'FILE'); parse_url(u, 'AUTHORITY'); parse_url(u, 'USERINFO')
try_parse_url('a b', 'HOST')
s like 'a%'; s like '%_b%'; s like '\\\\%%'; s ilike 'A%'; like(s, 'h%'); ilike(s, '%WORLD'); s not like '%o%'
s like any ('a%', '%d'); s like all ('%a%', '%b%'); s rlike '[0-9]+'; regexp(s, '^a'); regexp_like(s, 'o.*d$')
rlike(s, '(?i)HELLO')
regexp_extract(s, '([a-z]+)([0-9]+)', 2); regexp_extract(s, '([a-z]+)', 1); regexp_extract(s, '\\\\d+', 0)
regexp_extract_all(s, '([a-z]+)', 1); regexp_extract_all(s, '\\\\w', 0); regexp_replace(s, '[aeiou]', '<$0>')
regexp_replace(s, '(\\\\w)(\\\\w)', '$2$1'); regexp_replace(s, 'l+', '', 4); regexp_count(s, 'b|o')
regexp_substr(s, '[0-9]+'); regexp_instr(s, '[0-9]'); split(s, ','); split(s, ''); split(s, '[ab]')
split(s, ',', 2); split(s, ' +'); split(t, 'x*'); split(s, ',', 0)
md5(s); sha(s); sha1(s); sha2(s, 256); sha2(s, 0); sha2(s, 512); sha2(s, 224); sha2(s, 384); sha2(s, 1); crc32(s)
md5(x); hash(i); hash(l, s); hash(d, f, b, y, h); hash(m, w); hash(dt, ts, tz); hash(x, s); hash(ai, st)
hash(ad, asx, null); xxhash64(i); xxhash64(l, s); xxhash64(d, f, b); xxhash64(m, w); xxhash64(dt, ts)
xxhash64(ai, st, x)
"""
TIMES = """
year(dt); month(dt); day(dt); dayofmonth(dt); year(ts); month(tz); day(ts); hour(ts); minute(ts); second(ts)
hour(tz); year(sd); hour(dt); quarter(dt); quarter(ts); dayofweek(dt); weekday(dt); dayofyear(dt); weekofyear(dt)
dayname(dt); monthname(dt); last_day(dt2); next_day(dt2, 'MON'); next_day(dt2, 'friday')
extract(year from dt); extract(week from dt); extract(dow from dt); extract(doy from dt); extract(second from ts)
extract(hour from ts); extract(yearofweek from dt); extract(dayofweek_iso from dt); extract(quarter from ts)
date_part('minute', ts); datepart('month', dt)
date_add(dt, k); dateadd(dt, 1); date_sub(dt, k); datediff(dt, dt2); date_diff(dt, dt2); add_months(dt2, n)
add_months(dt2, 12); months_between(ts, ts2); months_between(ts, ts2, false); months_between(dt, dt2)
make_date(2000 + k, k, 28); date_from_unix_date(k); unix_date(dt); trunc(dt, 'MM'); trunc(dt, 'year')
trunc(dt, 'week'); trunc(dt, 'quarter'); trunc(dt, 'x')
dt + 1; dt - 1; dt - dt2; date'2024-01-31' + interval 1 month; dt2 + interval '1' day
ts + interval '1 02:03:04.5' day to second; ts - interval 2 hours; dt2 - interval 1 year; dt2 + interval 3 hours
interval 1 day + dt2; ts2 + interval '1-2' year to month
date_trunc('hour', ts); date_trunc('DAY', ts); date_trunc('week', ts); date_trunc('month', ts)
date_trunc('quarter', ts); date_trunc('year', ts); date_trunc('second', ts); date_trunc('minute', ts)
date_trunc('millisecond', ts); date_trunc('nonsense', ts); date_trunc('dd', ts)
date_format(ts, 'yyyy-MM-dd HH:mm:ss'); date_format(dt, 'EEE, d MMM yyyy'); date_format(ts, 'hh:mm a')
date_format(ts, 'D'); date_format(ts, 'SSS'); date_format(dt, 'EEEE MMMM'); date_format(ts, "yy/M/d'T'H:m:s")
date_format(dt, 'Q'); from_unixtime(k * 100000); from_unixtime(k, 'yyyy/MM/dd'); from_unixtime(l % 1000000000)
to_date(sd); to_date(ts); to_date('2024/03/01', 'yyyy/MM/dd'); to_date(dt); to_timestamp(stt)
to_timestamp('01.02.2024 03:04', 'dd.MM.yyyy HH:mm'); to_timestamp(dt); to_timestamp_ntz(sd); to_timestamp_ltz(stt)
try_to_timestamp(s); try_to_timestamp('2024-13-01', 'yyyy-MM-dd'); try_to_timestamp(stt); try_to_date(s)
try_to_date('2024-02-30', 'yyyy-MM-dd'); unix_timestamp('2024-01-01 00:00:01'); unix_timestamp(ts)
unix_timestamp(dt); to_unix_timestamp('2024-01-01', 'yyyy-MM-dd'); to_unix_timestamp(ts)
unix_seconds(ts); unix_millis(ts); unix_micros(ts); timestamp_seconds(l % 1000000000); timestamp_seconds(1.5)
timestamp_seconds(k / 4D); timestamp_millis(l % 1000000000000); timestamp_micros(l % 1000000000000000)
from_utc_timestamp(ts2, 'Europe/Berlin'); to_utc_timestamp(ts2, 'America/New_York')
from_utc_timestamp(ts, '+05:30'); to_utc_timestamp(ts2, 'Asia/Tokyo'); convert_timezone('UTC', 'Asia/Kolkata', tz)
convert_timezone('America/Los_Angeles', tz)
make_timestamp(2024, k, 28, 23, 59, 59.5); make_timestamp(2024, 1, 1, 0, 0, 0, 'CET')
make_timestamp_ntz(2024, k, 1, 2, 3, 4); make_timestamp_ltz(2024, 2, 29, 0, 0, 60)
try_make_timestamp(2024, n, 1, 0, 0, 0); try_make_timestamp_ntz(2024, 1, 32, 0, 0, 0)
try_make_timestamp_ltz(2024, 1, 1, 25, 0, 0); make_dt_interval(k, 1, 2, 3.5)
timestampadd(HOUR, k, ts); timestampadd(MONTH, 1, ts2); timestampdiff(DAY, ts, ts2); timestampdiff(MONTH, ts, ts2)
timestampdiff(YEAR, ts, ts2); timestampdiff(SECOND, ts2, ts); dateadd(DAY, k, ts); datediff(HOUR, ts, ts2); ts - ts2
ts > date'2000-01-01'
"""
CASTS = """
cast(i as string); cast(l as string); cast(d as string); cast(f as string); cast(b as string); cast(m as string)
cast(w as string); cast(dt as string); cast(ts as string); cast(tz as string); cast(encode(s, 'utf-8') as string)
cast(ai as string); cast(mp as string); cast(st as string); cast(ad as string); string(i); string(ts - ts2)
cast(si as int); cast(si as bigint); cast(sr as double); cast(sr as float); cast(si as decimal(12,2))
cast(sd as date); cast(stt as timestamp); cast(sd as timestamp_ntz); cast('true' as boolean); cast('N' as boolean)
cast(s as binary); int(si); bigint(i); double(i); float(d); boolean(i); date(ts); timestamp(dt); binary(s)
tinyint(k); smallint(k); decimal(k)
cast(k as tinyint); cast(y as bigint); cast(i as double); cast(i as decimal(12,1)); cast(m as bigint) % 5
cast(m as bigint); cast(m as double); cast(m as decimal(20,1)); cast(r as decimal(10,3)); cast(k as boolean)
cast(b as int); cast(b as double); cast(d as boolean); cast(d as float); cast(ts as date); cast(dt as timestamp)
cast(dt as timestamp_ntz); cast(ts as timestamp_ntz); cast(tz as timestamp); cast(ts as bigint); cast(ts as double)
cast(k as timestamp); cast(nanvl(r, 3D) as bigint)
try_cast(s as int); try_cast(s as double); try_cast(l as int); try_cast(d as int); try_cast(d as bigint)
try_cast(s as date); try_cast(s as timestamp); try_cast(sr as decimal(4,1)); try_cast(i as tinyint)
try_cast(m as decimal(4,1)); try_cast(s as boolean); try_cast(d as decimal(10,2)); try_cast(sr as int)
try_cast(si as tinyint)
cast(ai as array<string>); cast(ai as array<bigint>); cast(mp as map<string,double>)
cast(st as struct<x:bigint,y:string>); array(1, 2.5); array(1, '2'); 1.5; 1.50BD; 0.05; 100; 3000000000; 1e3; 5Y; 6S
7L; 1.5F; 2.5D; X'1F'; 'it\\'s'; "q"; null; true; date'2024-02-29'; timestamp'2024-02-29 01:02:03.004'
timestamp_ntz'2024-02-29 01:02:03'; -128Y; -2147483648; interval 5 seconds; i::string; si = 1
"""
COLLECTIONS = """
array(i, k, null); size(ai); cardinality(ai); size(mp); array_size(ai); if(size(ai) > 0, ai[0], -1); get(ai, n)
get(ai, 0); element_at(mp, 'a'); try_element_at(ai, k); try_element_at(ai, -1); try_element_at(mp, 'x'); mp['a']
mp[t]; st.a; st.b; st['a']; array(st).b; named_struct('p', i, 'q', s).q; struct(i, s); struct(i as p, 1).p
named_struct('a', ai, 'm', mp); m * 2 = m + m
array_contains(ai, k); array_contains(ad, double('NaN')); array_contains(asx, t); array_position(ai, k)
array_position(asx, 'a'); array_remove(ai, 2); array_remove(ad, double('NaN')); array_distinct(ai)
array_distinct(ad); array_distinct(asx); array_union(ai, ai2); array_union(ad, ad); array_intersect(ai, ai2)
array_except(ai, ai2); arrays_overlap(ai, ai2); array_compact(ai); array_append(ai, k); array_prepend(ai, i)
array_insert(ai, 2, 9); array_insert(ai, -2, 9); array_insert(ai, 7, k); array_repeat(s, n)
array_join(asx, ','); array_join(asx, ',', '?'); array_max(ai); array_min(ai); array_max(ad); array_min(ad)
array_max(asx); sort_array(ai); sort_array(ai, false); sort_array(ad); sort_array(asx); array_sort(ai)
array_sort(ad); array_sort(ai, (p, q) -> case when p is null then 1 when q is null then -1 else q - p end)
slice(ai, k, 2); slice(ai, -2, 2); reverse(ai); flatten(aa); arrays_zip(ai, asx); arrays_zip(ai); sequence(1, k)
sequence(5, 1); sequence(1, 10, k); sequence(date'2024-01-30', date'2024-02-02')
sequence(date'2024-01-31', date'2024-05-01', interval 1 month)
sequence(timestamp'2024-01-01', timestamp'2024-01-02', interval 6 hours); concat(ai, array(1))
transform(ai, p -> p + 1L); transform(ai, (p, q) -> p % 7 + q); transform(asx, p -> upper(p) || t)
filter(ai, p -> p > 1); filter(ai, (p, q) -> q > 0); exists(ai, p -> p = 2); forall(ai, p -> p > 0)
aggregate(ai, 0L, (p, q) -> p + coalesce(q, 0)); aggregate(ai, 0L, (p, q) -> p + q, p -> p * 10)
reduce(asx, '', (p, q) -> concat(p, coalesce(q, '-')))
zip_with(ai, ai2, (p, q) -> coalesce(p, 0L) + coalesce(q, 0L))
transform(ai, p -> aggregate(ai2, p, (x1, y1) -> x1)); filter(asx, p -> p is not null)
transform(array(st), p -> p.a); exists(ad, p -> isnan(p))
map('a', i, 'b', k); map_keys(mp); map_values(mp); map_entries(mp); map_contains_key(mp, 'a')
map_from_arrays(array('p', 'q'), array(i, k)); map_from_entries(map_entries(mp)); map_concat(mp, mq)
map_filter(mp, (p, q) -> q > 1); transform_keys(mp, (p, q) -> concat(p, '!'))
transform_values(mp, (p, q) -> q + 1L); map_zip_with(mp, mq, (p, q, r1) -> coalesce(q, 0L) - coalesce(r1, 0L))
str_to_map('a:1,b:2'); str_to_map(concat('k=', t, 'z;l'), ';', '=')
get_json_object(j, '$.a'); get_json_object(j, '$.b'); get_json_object(j, '$.a.b[1].c'); get_json_object(j, '$.c[*]')
get_json_object(j, '$[0].a'); get_json_object(j, '$[*].a'); get_json_object(j, '$'); get_json_object(j, 'a')
json_array_length(j); json_object_keys(j); from_json(j, 'a INT, b STRING'); from_json(j, 'a DOUBLE, b BOOLEAN')
from_json(j, 'map<string,string>'); from_json(j, 'array<int>')
from_json('{"t":"2024-01-02 03:04:05","d":"2024-01-02"}', 't TIMESTAMP, d DATE')
from_json('{"a":{"b":[1,2]}}', 'a struct<b:array<int>>'); from_json(j, 'a DECIMAL(10,2), c ARRAY<INT>')
from_json(j, 'a BIGINT'); to_json(st); to_json(mp); to_json(ai)
to_json(named_struct('d', r, 't', ts, 'x', dt, 'm', m)); to_json(array(st))
from_csv('1,abc,2.5', 'a INT, b STRING, c DOUBLE'); from_csv(concat(si, ',', t), 'a INT, b STRING'); to_csv(st)
to_csv(named_struct('a', s, 'b', r, 'c', dt))
"""


def split_cases(text: str) -> list[str]:
    return [case for line in text.strip().splitlines() for case in map(str.strip, line.split("; ")) if case]
