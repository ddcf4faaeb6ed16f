import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { readTracingOptions } from './tracing-options.ts';

describe('the OTEL_ variables', () => {
  it('have defaults: a collector on this machine, a tenth of the requests', () => {
    expect(readTracingOptions({})).toEqual({
      warnings: [],
      options: {
        isDisabled: false,
        isExported: true,
        resource: { 'service.name': 'llm-d-coordinator' },
        url: 'http://localhost:4318/v1/traces',
        headers: {},
        timeoutMs: 10_000,
        isGzipped: false,
        tls: {},
        ratio: 0.1,
        maxQueuedSpans: 2_048,
        maxBatchSpans: 512,
        delayMs: 5_000,
      },
    });
  });

  it.each([
    { environment: { OTEL_SDK_DISABLED: 'TRUE' }, options: { isDisabled: true } },
    { environment: { OTEL_TRACES_EXPORTER: 'none' }, options: { isExported: false } },
    { environment: { OTEL_TRACES_EXPORTER: 'otlp' }, options: { isExported: true } },
    {
      environment: { OTEL_SERVICE_NAME: 'a', OTEL_RESOURCE_ATTRIBUTES: 'service.name=b, k=v%2C,' },
      options: { resource: { 'service.name': 'a', k: 'v,' } },
    },
    {
      environment: { OTEL_RESOURCE_ATTRIBUTES: 'service.name=b' },
      options: { resource: { 'service.name': 'b' } },
    },
    {
      environment: { OTEL_EXPORTER_OTLP_ENDPOINT: 'https://c:4318/' },
      options: { url: 'https://c:4318/v1/traces' },
    },
    {
      environment: {
        OTEL_EXPORTER_OTLP_ENDPOINT: 'http://c:4318',
        OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'http://t/x',
      },
      options: { url: 'http://t/x' },
    },
    {
      environment: {
        OTEL_EXPORTER_OTLP_HEADERS: 'a=1,b=2',
        OTEL_EXPORTER_OTLP_TRACES_HEADERS: 'b=3%3D',
      },
      options: { headers: { a: '1', b: '3=' } },
    },
    {
      environment: { OTEL_EXPORTER_OTLP_TIMEOUT: '1', OTEL_EXPORTER_OTLP_TRACES_TIMEOUT: '2' },
      options: { timeoutMs: 2 },
    },
    { environment: { OTEL_EXPORTER_OTLP_COMPRESSION: 'gzip' }, options: { isGzipped: true } },
    { environment: { OTEL_EXPORTER_OTLP_PROTOCOL: 'http/protobuf' }, options: {} },
    {
      environment: {
        OTEL_TRACES_SAMPLER: 'parentbased_traceidratio',
        OTEL_TRACES_SAMPLER_ARG: '0',
      },
      options: { ratio: 0 },
    },
    { environment: { OTEL_TRACES_SAMPLER_ARG: '0.25' }, options: { ratio: 0.25 } },
    {
      environment: {
        OTEL_BSP_MAX_QUEUE_SIZE: '100',
        OTEL_BSP_MAX_EXPORT_BATCH_SIZE: '200',
        OTEL_BSP_SCHEDULE_DELAY: '7',
      },
      options: { maxQueuedSpans: 100, maxBatchSpans: 100, delayMs: 7 },
    },
    { environment: { OTEL_TRACES_SAMPLER: ' ', OTEL_EXPORTER_OTLP_ENDPOINT: '' }, options: {} },
  ])('$environment are read', ({ environment, options }) => {
    const read = readTracingOptions(environment);
    expect(read.warnings).toEqual([]);
    expect(read.options).toMatchObject(options);
  });

  it.each([
    {
      environment: { OTEL_TRACES_SAMPLER: 'always_on', OTEL_TRACES_SAMPLER_ARG: '1' },
      warning: 'OTEL_TRACES_SAMPLER: expected parentbased_traceidratio, it has no effect',
    },
    {
      environment: { OTEL_TRACES_SAMPLER_ARG: '1.5' },
      warning: 'OTEL_TRACES_SAMPLER_ARG: expected a number from 0 to 1, it has no effect',
    },
    {
      environment: { OTEL_TRACES_EXPORTER: 'zipkin' },
      warning: 'OTEL_TRACES_EXPORTER: expected otlp or none, it has no effect',
    },
    {
      environment: { OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' },
      warning: 'OTEL_EXPORTER_OTLP_PROTOCOL: expected http/protobuf, it has no effect',
    },
    {
      environment: { OTEL_EXPORTER_OTLP_ENDPOINT: 'collector:4317' },
      warning: 'OTEL_EXPORTER_OTLP_ENDPOINT: expected an http address, it has no effect',
    },
    {
      environment: { OTEL_EXPORTER_OTLP_HEADERS: 'secret' },
      warning: 'OTEL_EXPORTER_OTLP_HEADERS: expected key=value pairs, it has no effect',
    },
    {
      environment: { OTEL_EXPORTER_OTLP_HEADERS: 'a=%zz' },
      warning: 'OTEL_EXPORTER_OTLP_HEADERS: expected key=value pairs, it has no effect',
    },
    {
      environment: { OTEL_EXPORTER_OTLP_TIMEOUT: '0' },
      warning: 'OTEL_EXPORTER_OTLP_TIMEOUT: expected milliseconds above 0, it has no effect',
    },
    {
      environment: { OTEL_EXPORTER_OTLP_CERTIFICATE: '/no/such/file' },
      warning: 'OTEL_EXPORTER_OTLP_CERTIFICATE: expected a file that can be read, it has no effect',
    },
    {
      environment: { OTEL_BSP_MAX_QUEUE_SIZE: '-1' },
      warning: 'OTEL_BSP_MAX_QUEUE_SIZE: expected a whole number above 0, it has no effect',
    },
  ])('$environment warn and leave the default', ({ environment, warning }) => {
    const read = readTracingOptions(environment);
    expect(read.warnings).toEqual([warning]);
    expect(read.options).toEqual(readTracingOptions({}).options);
  });

  it('name files whose content is used', () => {
    const directory = mkdtempSync(join(tmpdir(), 'telemetry-'));
    const file = join(directory, 'ca.pem');
    writeFileSync(file, 'pem');
    const { options } = readTracingOptions({ OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE: file });
    rmSync(directory, { recursive: true });
    expect(options.tls).toEqual({ ca: Buffer.from('pem') });
  });
});
