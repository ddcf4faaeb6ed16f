import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { createAddressGuard } from './address-guard.ts';
import { parseAllowedDomains } from './domain-rules.ts';
import { MediaError } from './media-error.ts';
import { failureOf } from './testing.ts';
import { checkHttpUrl, type UrlPolicy } from './url-policy.ts';

const policy: UrlPolicy = {
  guard: createAddressGuard(),
  maxUrlLength: 8192,
  allowedDomains: [],
  excusedDomains: [],
  blockedDomains: [],
  allowedPorts: [],
};

const refused: Record<string, readonly string[]> = {
  media_address_blocked: [
    ...[
      'http://2130706433/',
      'http://0x7f000001/',
      'http://0177.0.0.1/',
      'http://127.1/',
      'http://0/',
    ],
    ...[
      'http://0.0.0.0:80/',
      'http://00000000177.0.0.1/',
      'http://017700000001/',
      'http://0x7f.1/',
    ],
    ...[
      'http://１２７.０.０.１/',
      'http://127。0。0。1/',
      'http://①②⑦.⓪.⓪.①/',
      'http://127.0.0.1./',
    ],
    ...[
      'http://2852039166/',
      'http://0xa9fea9fe/',
      'http://0251.0376.0251.0376/',
      'http://169.254.43518/',
    ],
    ...['http://[::1]/', 'http://[::]/', 'http://[::ffff:127.0.0.1]/', 'http://[::ffff:7f00:1]/'],
    ...['http://[::127.0.0.1]/', 'http://[::7f00:1]/', 'http://[::ffff:0:127.0.0.1]/'],
    ...[
      'http://[64:ff9b::169.254.169.254]/',
      'http://[64:ff9b::808:808]/',
      'http://[64:ff9b::7f00:1]/',
    ],
    ...['http://[64:ff9b:1::a9fe:a9fe]/', 'http://[2002:7f00:1::]/', 'http://[2002:a9fe:a9fe::]/'],
    ...['http://[2001:0:4136:e378:8000:63bf:3fff:fdd2]/', 'http://[2600::5efe:7f00:1]/'],
    ...['http://[fe80::1]/', 'http://[fd00:ec2::254]/', 'http://[ff02::1]/', 'http://[100::1]/'],
    ...[
      'http://[4000::1]/',
      'http://168.63.129.16/',
      'http://100.100.100.200/',
      'http://192.0.0.192/',
    ],
    ...['http://198.18.0.1/', 'http://240.0.0.1/', 'http://255.255.255.255/', 'http://224.0.0.1/'],
    ...['http://100.64.0.1/', 'https://169.254.169.254/latest/meta-data/', 'HTTP://127.0.0.1/'],
  ],
  media_host_not_allowed: [
    ...['http://ⓛocalhost/', 'http://localhost./', 'http://LOCALHOST/', 'http://a.localhost/'],
    ...[
      'http://redis/',
      'http://kubernetes.default.svc/',
      'http://x.cluster.local/',
      'http://x.local/',
    ],
    ...['http://metadata.google.internal/', 'http://x.onion/', 'http://1.0.0.127.in-addr.arpa/'],
    ...['http://x.home.arpa/', 'http://x.localdomain/', 'http://svc/', 'http://X.Internal./'],
  ],
  media_credentials_not_allowed: [
    ...['http://user:pw@example.com/', 'http://example.com@127.0.0.1/', 'http://1.1.1.1%2f@2/'],
    ...['http://@example.com/', 'http://user@example.com/'],
  ],
  media_url_invalid: [
    ...[
      'http://127.0.0.1\\@example.com/',
      'http://example.com\\@127.0.0.1/',
      'http:\\\\example.com\\',
    ],
    ...[
      'http://exa\tmple.com/',
      'http://example.com/\n',
      'http://example.com/\0',
      'http://exa\x7fmple.com/',
    ],
    ...[
      ' http://example.com/',
      'http://example.com/ ',
      'http:example.com/x',
      'http:///x',
      '//example.com/x',
    ],
    ...[
      'example.com/x',
      '',
      'http://',
      'http://?x',
      'http://%31%32%37.0.0.1/',
      'http://[fe80::1%25eth0]/',
    ],
    ...[
      'http://[fe80::1%eth0]/',
      'http://a..b/',
      `http://${'a'.repeat(64)}.com/`,
      'http://x.com:65536/',
    ],
    ...[`http://${'a'.repeat(62)}.${'b'.repeat(62)}.${'c'.repeat(62)}.${'d'.repeat(62)}.ee/`],
    ...['http://.example.com/', 'http://1.2.3.4.5/', 'http://exam ple.com/', 'http://[1::2::3]/'],
  ],
  media_scheme_not_allowed: [
    ...['file:///etc/passwd', 'ftp://example.com/', 'gopher://example.com/', 'dict://example.com/'],
    ...[
      'blob:http://example.com/x',
      'javascript:alert(1)',
      'http+unix://%2fvar%2frun/',
      'FILE:///x',
    ],
    ...['ws://example.com/', 'data:text/plain,x'],
  ],
  media_port_not_allowed: [22, 25, 6379, 2375, 10250, 0, 27017, 6667].map(
    (port) => `http://example.com:${port}/`,
  ),
  media_url_too_long: [`http://example.com/${'a'.repeat(8193 - 19)}`],
};

describe('the static URL check (C27)', () => {
  const rows = Object.entries(refused).flatMap(([code, urls]) =>
    urls.map((url) => ({ code, url })),
  );

  it.each(rows)('[1 to 42] $code for $url', async ({ code, url }) => {
    const failure = await failureOf(() => checkHttpUrl(url, policy));
    expect(failure).toMatchObject({ code, stepStatus: 400, retryable: false });
    expect(failure.safeMessage).toMatch(/^downloading media: /);
  });

  it.each([
    ['http://example.com/x', 'http://example.com/x'],
    ['HTTP://EXAMPLE.COM:80/a', 'http://example.com/a'],
    ['http://example.com#@127.0.0.1/', 'http://example.com/'],
    ['http://[::ffff:8.8.8.8]/', 'http://[::ffff:808:808]/'],
    ['http://[2606:4700:4700::1111]:8080/', 'http://[2606:4700:4700::1111]:8080/'],
    ['http://134744072/', 'http://8.8.8.8/'],
    ['https://example.com./x', 'https://example.com./x'],
    ['http://example.com/a%2Fb?x=%2F&y=a+b', 'http://example.com/a%2Fb?x=%2F&y=a+b'],
    ['http://example.com//a|b/%zz?q=a|b#frag', 'http://example.com//a|b/%zz?q=a|b'],
    ['http://例え.jp/', 'http://xn--r8jz45g.jp/'],
    [`http://example.com/${'a'.repeat(8192 - 19)}`, `http://example.com/${'a'.repeat(8192 - 19)}`],
  ])('takes %s', (text, href) => {
    expect(checkHttpUrl(text, policy).href).toBe(href);
  });

  it('lets an allow list name a reserved host, and refuses every other host', async () => {
    const rules = parseAllowedDomains(['redis', 'xn--r8jz45g.jp']);
    const listed = { ...policy, allowedDomains: rules, excusedDomains: rules };
    expect(checkHttpUrl('http://redis/x', listed).hostname).toBe('redis');
    expect(checkHttpUrl('http://例え.jp/', listed).hostname).toBe('xn--r8jz45g.jp');
    const failure = await failureOf(() => checkHttpUrl('http://example.com/', listed));
    expect(failure.code).toBe('media_host_not_allowed');
  });

  it('does not open an address by listing it', async () => {
    const listed = { ...policy, allowedDomains: parseAllowedDomains(['127.0.0.1']) };
    const failure = await failureOf(() => checkHttpUrl('http://127.0.0.1/', listed));
    expect(failure.code).toBe('media_address_blocked');
  });

  it('[56] lets blocked domains win over allowed ones', async () => {
    const rules = parseAllowedDomains(['.example.com']);
    const both = { ...policy, allowedDomains: rules, blockedDomains: rules };
    const failure = await failureOf(() => checkHttpUrl('http://a.example.com/', both));
    expect(failure.code).toBe('media_host_not_allowed');
  });

  it('asks allowed ports only, when they are named', async () => {
    const ports = { ...policy, allowedPorts: [443, 6379] };
    expect(checkHttpUrl('http://example.com:6379/', ports).port).toBe('6379');
    const failure = await failureOf(() => checkHttpUrl('http://example.com/', ports));
    expect(failure.code).toBe('media_port_not_allowed');
  });

  it('repeats no secret of the URL', async () => {
    const secret = 'http://localhost/p/cat.jpg?sig=SECRET#SECRET';
    const { safeMessage, logDetail } = await failureOf(() => checkHttpUrl(secret, policy));
    expect(safeMessage + logDetail).not.toContain('SECRET');
    expect(safeMessage).not.toContain('localhost');
    expect(logDetail).toContain('http://localhost/…/cat.jpg…');
  });
});

const number = (base: 8 | 10 | 16): ((value: number) => string) =>
  ({
    8: (v: number) => `0${v.toString(8)}`,
    10: (v: number) => `${v}`,
    16: (v: number) => `0x${v.toString(16)}`,
  })[base];
const wide = (text: string): string =>
  text.replace(/[0-9]/g, (digit) => String.fromCharCode(0xff10 + Number(digit)));

function isBlocked(url: string): boolean {
  try {
    checkHttpUrl(url, policy);
    return false;
  } catch (error) {
    return error instanceof MediaError && error.code === 'media_address_blocked';
  }
}

describe('the static URL check, for any spelling', () => {
  const byte = fc.integer({ min: 0, max: 255 });
  const base = fc.constantFrom(8, 10, 16);
  const privateFirst = fc.constantFrom(
    [127, 0],
    [10, 1],
    [169, 254],
    [192, 168],
    [0, 0],
    [100, 64],
    [172, 20],
  );

  it('never lets a non-public IPv4 pass', () => {
    fc.assert(
      fc.property(
        privateFirst,
        byte,
        byte,
        fc.tuple(base, base, base, base),
        fc.integer({ min: 1, max: 4 }),
        fc.boolean(),
        fc.boolean(),
        ([a = 0, b = 0], c, d, bases, parts, isWide, hasDot) => {
          const bytes = [a, b, c, d];
          // The last written part takes all bytes that are left.
          const last = bytes.slice(parts - 1).reduce((value, next) => value * 256 + next, 0);
          const numbers = [...bytes.slice(0, parts - 1), last];
          const plain = numbers.map((value, i) => number(bases[i] ?? 10)(value)).join('.');
          const host = (isWide ? wide(plain) : plain) + (hasDot ? '.' : '');
          return isBlocked(`http://${host}/x`);
        },
      ),
      { numRuns: 2000 },
    );
  });

  it('never lets a non-public IPv4 pass inside an IPv6 literal', () => {
    const forms = fc.constantFrom(
      '::ffff:',
      '::',
      '::ffff:0:',
      '64:ff9b::',
      '64:ff9b:1::',
      '2600::5efe:',
      'fe80::',
      '2002:',
    );
    fc.assert(
      fc.property(
        privateFirst,
        byte,
        byte,
        forms,
        fc.boolean(),
        fc.boolean(),
        ([a = 0, b = 0], c, d, form, isDotted, isUpper) => {
          const pair = `${((a << 8) | b).toString(16)}:${((c << 8) | d).toString(16)}`;
          const tail = form === '2002:' ? `${pair}::` : isDotted ? `${a}.${b}.${c}.${d}` : pair;
          const host = isUpper ? `${form}${tail}`.toUpperCase() : `${form}${tail}`;
          return isBlocked(`https://[${host}]/`);
        },
      ),
      { numRuns: 2000 },
    );
  });

  it('returns a URL or throws a MediaError for any text', () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string(),
          fc.webUrl(),
          fc.string().map((s) => `http://${s}`),
        ),
        (text) => {
          try {
            const url = checkHttpUrl(text, policy);
            return /^https?:$/.test(url.protocol) && url.username + url.password + url.hash === '';
          } catch (error) {
            return error instanceof MediaError;
          }
        },
      ),
      { numRuns: 2000 },
    );
  });
});
