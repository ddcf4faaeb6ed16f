import { optionsFrom } from './command-line.ts';
import { startGateway } from './gateway.ts';

const gateway = await startGateway(optionsFrom(process.argv.slice(2), process.env), (leg) =>
  console.log(JSON.stringify(leg)),
);
const { publicUrl, internalUrl, adminUrl } = gateway;
console.log(JSON.stringify({ msg: 'gateway-sim listening', publicUrl, internalUrl, adminUrl }));
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => void gateway.close().then(() => process.exit(0)));
}
