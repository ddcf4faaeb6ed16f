import { describe, expect, it } from '@jest/globals';
import { parseFlags } from './flags.ts';

describe('parseFlags', () => {
  it('without arguments names the default file and overrides nothing', () => {
    expect(parseFlags([])).toEqual({
      file: 'config/coordinator/coordinator.yaml',
      strictConfig: false,
      overrides: {},
      ignored: [],
    });
  });

  it.each([
    { argv: ['--config', 'a.yaml'] },
    { argv: ['--config=a.yaml'] },
    { argv: ['-config', 'a.yaml'] },
    { argv: ['-config=a.yaml'] },
  ])('takes a value as $argv', ({ argv }) => {
    expect(parseFlags(argv).file).toBe('a.yaml');
  });

  it.each([
    { argv: ['-v', '4'], key: 'log_level', value: '4' },
    { argv: ['--v=5'], key: 'log_level', value: '5' },
    { argv: ['-v=-1'], key: 'log_level', value: '2' },
    { argv: ['-v=10'], key: 'log_level', value: '5' },
    { argv: ['-v=loud'], key: 'log_level', value: 'loud' },
    { argv: ['--metrics-port', '0'], key: 'server.metrics_port', value: '0' },
    { argv: ['--metrics-cert-dir=/c'], key: 'server.metrics_cert_dir', value: '/c' },
    { argv: ['--secure-serving'], key: 'server.secure_serving', value: 'true' },
    { argv: ['--secure-serving=false'], key: 'server.secure_serving', value: 'false' },
    { argv: ['--cert-path', '/c'], key: 'server.cert_path', value: '/c' },
    {
      argv: ['--tls-min-version=VersionTLS13'],
      key: 'server.tls_min_version',
      value: 'VersionTLS13',
    },
    { argv: ['--tls-cipher-suites=a,b'], key: 'server.tls_cipher_suites', value: 'a,b' },
    { argv: ['--tracing'], key: 'tracing', value: 'true' },
    { argv: ['--zap-log-level=debug', '-v=2'], key: 'log_level', value: '4' },
    { argv: ['--zap-log-level=5'], key: 'log_level', value: '5' },
  ])('$argv overrides $key', ({ argv, key, value }) => {
    expect(parseFlags(argv).overrides).toEqual({ [key]: value });
  });

  it('accepts the other options of the original logger without effect', () => {
    expect(parseFlags(['--zap-encoder=json', '--zap-devel', '--strict-config'])).toMatchObject({
      strictConfig: true,
      overrides: {},
      ignored: ['--zap-encoder=json', '--zap-devel'],
    });
  });

  it.each([
    { argv: ['--confg', 'a'], message: '--confg: unknown flag, did you mean --config?' },
    { argv: ['--colour'], message: '--colour: unknown flag' },
    { argv: ['--config'], message: '--config: expected a value, got nothing' },
    { argv: ['a.yaml'], message: 'command line: expected flags such as --config, got "a.yaml"' },
  ])('refuses $argv', ({ argv, message }) => {
    expect(() => parseFlags(argv)).toThrow(message);
  });
});
