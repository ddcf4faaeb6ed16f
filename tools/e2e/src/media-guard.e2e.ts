import { beforeAll, describe, expect, it } from '@jest/globals';
import { type UrlFuzzReport } from '@llm-d/media/url-fuzz';
import ipaddr from 'ipaddr.js';
import { type GuardCase, type GuardOutput } from './media-guard-rig.ts';
import { hasNamespace } from './namespace.ts';
import { runRig } from './run-rig.ts';

/** Rows of media-fetcher.md 2.5 (U) and 8, against an origin that listens on every address there is. */
type Row = readonly [
  row: string,
  test: GuardCase,
  ends: readonly string[],
  reached: readonly string[],
];

const origin = '93.184.216.34';
const origin6 = '2606:4700:4700::1111';
const address = 'media_address_blocked';
const redirect = 'media_redirect_blocked';

const blocked = (row: string, ...urls: string[]): Row[] =>
  urls.map((url): Row => [row, { url }, [address], []]);
const to = (target: string): string => `http://${origin}/to/${encodeURIComponent(target)}`;
const named = (...answers: string[][]): GuardCase => ({
  url: 'http://media.example.com/',
  names: { 'media.example.com': answers },
});

/** U34: the addresses that no name may lead to. */
const forbidden = [
  ...['169.254.169.254', '127.0.0.1', '::1', 'fe80::1', '0.0.0.0', '::', '100.64.1.1', '10.0.0.1'],
  ...['172.16.0.1', '192.168.1.1', 'fc00::1', '::ffff:169.254.169.254', '::ffff:10.0.0.1'],
  ...['::7f00:1', '64:ff9b::a9fe:a9fe', '2002:7f00:1::', '2600::5efe:7f00:1', '168.63.129.16'],
  ...['100.100.100.200', '192.0.0.192', '198.18.0.1', '240.0.0.1', 'fd00:ec2::254', '4000::1'],
];
/** Those among them that the system connects to when nobody hinders it. */
const reachable = forbidden.filter((one) => !['fe80::1', '0.0.0.0', '::'].includes(one));

const rows: Row[] = [
  ['U35', { url: `http://${origin}/` }, ['ok'], [origin]],
  ['U35', { url: `http://[${origin6}]/` }, ['ok'], [origin6]],
  ...forbidden.map((one): Row => ['U34, 43', named([one]), [address], []]),
  ...blocked('1', 'http://2130706433/'),
  ...blocked('2', 'http://0x7f000001/'),
  ...blocked('3', 'http://0177.0.0.1/'),
  ...blocked('4', 'http://127.1/'),
  ...blocked('5', 'http://0/'),
  ...blocked('6', 'http://0.0.0.0:80/'),
  ...blocked('7', 'http://00000000177.0.0.1/'),
  ['8', { url: 'http://%31%32%37.0.0.1/' }, ['media_url_invalid'], []],
  ...blocked('9', 'http://１２７.０.０.１/', 'http://127。0。0。1/', 'http://①②⑦.⓪.⓪.①/'),
  ...['http://ⓛocalhost/', 'http://localhost./', 'http://LOCALHOST/', 'http://a.localhost/'].map(
    (url): Row => ['10, 11', { url }, ['media_host_not_allowed'], []],
  ),
  ...blocked('12', 'http://127.0.0.1./'),
  ...blocked('13', 'http://2852039166/', 'http://0xa9fea9fe/', 'http://0251.0376.0251.0376/'),
  ...blocked('13', 'http://169.254.43518/'),
  ...blocked('14', 'http://[::1]/', 'http://[::]/'),
  ...blocked('15', 'http://[::ffff:127.0.0.1]/', 'http://[::ffff:7f00:1]/'),
  ...blocked('16', 'http://[::127.0.0.1]/', 'http://[::7f00:1]/'),
  ...blocked('17', 'http://[::ffff:0:127.0.0.1]/'),
  ...blocked('18', 'http://[64:ff9b::169.254.169.254]/'),
  ...blocked('19', 'http://[64:ff9b::808:808]/'),
  [
    '19',
    { url: 'http://[64:ff9b::808:808]/', config: { nat64: 'unwrap' } },
    ['ok'],
    ['64:ff9b::808:808'],
  ],
  ...blocked('20', 'http://[64:ff9b:1::a9fe:a9fe]/'),
  ...blocked('21', 'http://[2002:7f00:1::]/', 'http://[2002:a9fe:a9fe::]/'),
  ...blocked('22', 'http://[2001:0:4136:e378:8000:63bf:3fff:fdd2]/'),
  ...blocked('23', 'http://[2600::5efe:7f00:1]/'),
  ...blocked('24', 'http://[fe80::1]/'),
  ['24', { url: 'http://[fe80::1%25eth0]/' }, ['media_url_invalid'], []],
  ...blocked('25', 'http://[fd00:ec2::254]/'),
  [
    '25',
    { url: 'http://[fd00:ec2::254]/', config: { allowedPrivateCidrs: ['fd00::/8'] } },
    [address],
    [],
  ],
  ...blocked('26', 'http://[ff02::1]/', 'http://[100::1]/', 'http://[4000::1]/'),
  ...['168.63.129.16', '100.100.100.200', '192.0.0.192'].flatMap((host): Row[] => [
    ['27', { url: `http://${host}/` }, [address], []],
    [
      '27',
      {
        url: `http://${host}/`,
        allowPrivateNetworks: true,
        config: { allowedPrivateCidrs: ['0.0.0.0/0'], nat64: 'unwrap' },
      },
      [address],
      [],
    ],
  ]),
  ...blocked('28', 'http://198.18.0.1/', 'http://240.0.0.1/', 'http://255.255.255.255/'),
  ...blocked('28', 'http://224.0.0.1/'),
  ['29', { url: 'http://[::ffff:8.8.8.8]/' }, ['ok'], ['8.8.8.8']],
  ...blocked('U40', 'http://169.254.169.254/latest/meta-data/'),
  ['U42', { url: 'http://localhost/' }, ['media_host_not_allowed'], []],
  // Listing a name opens no address: the hosts file says loopback.
  ['U42', { url: 'http://localhost/', allowedDomains: ['localhost'] }, [address], []],
  ['U43', { ...named([origin]), allowedDomains: ['media.example.com'] }, ['ok'], [origin]],
  [
    'U43',
    { ...named([origin]), allowedDomains: ['other.example.com'] },
    ['media_host_not_allowed'],
    [],
  ],
  ...['10.0.0.1', '172.16.0.1', '192.168.1.1'].map((one): Row => [
    'U36, 49',
    { ...named([one]), allowPrivateNetworks: true },
    ['ok'],
    [one],
  ]),
  ...['169.254.169.254', '127.0.0.1', '0.0.0.0', '100.64.1.1', 'fc00::1'].map((one): Row => [
    'U37, 49',
    { ...named([one]), allowPrivateNetworks: true },
    [address],
    [],
  ]),
  ['44', named([origin, '10.0.0.1']), [address], []],
  ['44', named([origin6, '::ffff:10.0.0.1']), [address], []],
  ['45', { ...named([origin], ['10.0.0.1']), times: 2 }, ['ok', address], [origin]],
  ['47', named([]), ['media_dns_failed'], []],
  [
    '50',
    { ...named(['10.20.1.1']), config: { allowedPrivateCidrs: ['10.20.0.0/16'] } },
    ['ok'],
    ['10.20.1.1'],
  ],
  [
    '50',
    { ...named(['10.21.1.1']), config: { allowedPrivateCidrs: ['10.20.0.0/16'] } },
    [address],
    [],
  ],
  ['U41, 57', { url: to('http://169.254.169.254/latest/') }, [`${redirect} ${address}`], [origin]],
  ['57', { url: to('http://[::ffff:10.0.0.1]/') }, [`${redirect} ${address}`], [origin]],
  [
    '58',
    { url: to('http://inner.example.com/'), names: { 'inner.example.com': [['10.0.0.1']] } },
    [`${redirect} ${address}`],
    [origin],
  ],
  [
    '58',
    { url: to('http://other.example.com/'), names: { 'other.example.com': [[origin6]] } },
    ['ok'],
    [origin, origin6],
  ],
  [
    '59',
    { url: to('http://8.8.8.8/'), allowedDomains: [origin] },
    [`${redirect} media_host_not_allowed`],
    [origin],
  ],
  ...['file:///etc/passwd', 'data:image/png;base64,AAAA', 'ftp://example.com/'].map(
    (target): Row => [
      '60',
      { url: to(target) },
      [`${redirect} media_scheme_not_allowed`],
      [origin],
    ],
  ),
  [
    '61',
    { url: to('http://user:pw@8.8.8.8/') },
    [`${redirect} media_credentials_not_allowed`],
    [origin],
  ],
  ['62', { url: to('http://8.8.8.8:6379/') }, [`${redirect} media_port_not_allowed`], [origin]],
];

/** A second opinion on addresses: ipaddr.js, and what it takes for public by mistake. */
function isGlobal(text: string): boolean {
  const parsed = ipaddr.process(text);
  if (parsed.range() !== 'unicast') return false;
  if (parsed.kind() === 'ipv4') return text !== '168.63.129.16';
  const bytes = parsed.toByteArray();
  return (bytes[0] ?? 0) >> 5 === 1 && !(bytes[10] === 0x5e && bytes[11] === 0xfe);
}

/** `E2E_FUZZ_URLS=100000` is the long run. */
const fuzzedUrls = Number(process.env['E2E_FUZZ_URLS'] ?? 10_000);

const inNamespace = hasNamespace ? describe : describe.skip;

inNamespace('where every address is an origin', () => {
  let output: GuardOutput;
  beforeAll(async () => {
    const cases = rows.map(([, test]) => test);
    output = (await runRig('media-guard-rig.ts', { cases, unguarded: reachable })) as GuardOutput;
  });

  it('connections that nobody guards reach what is forbidden', () => {
    const plain = (one: string): string =>
      one.replace('::ffff:', '').replace('::7f00:1', '::127.0.0.1');
    expect(output.reachable.map(plain)).toEqual(reachable.map(plain));
  });

  it.each(rows.map(([row, test, ends, reached], i) => ({ i, row, test, ends, reached })))(
    '$row: $test.url ends with $ends and reaches $reached',
    ({ i, ends, reached }) => {
      expect(output.outcomes[i]).toEqual({ ends, reached });
    },
  );

  it(`${fuzzedUrls} URLs of all spellings open no socket to an address that is not global`, async () => {
    const plan = { count: fuzzedUrls, seed: 20_261_130 };
    const report = (await runRig('url-fuzz-rig.ts', plan)) as UrlFuzzReport;
    expect(report.attempted.filter((one) => !isGlobal(one))).toEqual([]);
    expect(report.reached.filter((one) => !isGlobal(one))).toEqual([]);
    expect(report.unexpected).toEqual([]);
    expect(report.tried).toBe(fuzzedUrls);
    // It was no fuzz of refusals only.
    expect(report.fetched).toBeGreaterThan(fuzzedUrls / 50);
    expect(report.redirectsBlocked).toBeGreaterThan(fuzzedUrls / 200);
    expect(report.attempted.length).toBeGreaterThanOrEqual(report.reached.length);
  }, 600_000);
});
