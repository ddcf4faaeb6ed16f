import { describe, expect, it } from '@jest/globals';
import { maskSecrets } from './mask-secrets.ts';

describe('maskSecrets', () => {
  it.each([
    { name: 'password', value: 'p', shown: '***' },
    { name: 'redis_password', value: 'p', shown: '***' },
    { name: 'api_key', value: 5, shown: '***' },
    { name: 'apikey', value: 'k', shown: '***' },
    { name: 'X-Auth-Token', value: 'k', shown: '***' },
    { name: 'authorization', value: 'Bearer k', shown: '***' },
    { name: 'client_secret', value: ['a', 'b'], shown: ['***', '***'] },
    { name: 'max_total_tokens', value: 5, shown: 5 },
    { name: 'chat_tokens', value: true, shown: true },
    { name: 'password', value: '', shown: '' },
    {
      name: 'headers',
      value: { authorization: 'k', accept: 'a' },
      shown: { authorization: '***', accept: 'a' },
    },
    { name: 'address', value: 'http://gateway:80', shown: 'http://gateway:80' },
    { name: 'address', value: 'http://u:p@gateway:80/x', shown: 'http://***@gateway:80/x' },
    { name: 'address', value: 'http://registry/@scope/x', shown: 'http://registry/@scope/x' },
    { name: 'redis_url', value: 'redis://:p@host:6379/0', shown: 'redis://***@host:6379/0' },
    { name: 'redis_url', value: 'redis://:p/w@rd@host:6379', shown: 'redis://***@host:6379' },
    { name: 'urls', value: 'http://u:p@a,http://b', shown: 'http://***@a,http://b' },
    { name: 'address', value: 'http://h/?token=t&x=1', shown: 'http://h/?token=***&x=1' },
  ])('shows $name: $value as $shown', ({ name, value, shown }) => {
    expect(maskSecrets(name, value)).toEqual(shown);
  });
});
