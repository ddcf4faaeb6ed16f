/** What `--help` prints. */
export const helpText = `Usage:
  async-broker [FLAGS]    starts the async broker

Flags:
  --config FILE           the configuration file
  --listen HOST:PORT      where probes and metrics are (default :8080)
  --log-level N           1 warnings to 5 everything
  --redis-url URL         the Redis with queue and records
  --redis-cluster URLS    nodes of a Redis Cluster instead, with commas between them
  --dispatch-address URL  the coordinator that requests go to
  --board-password TEXT   shows Bull Board to who knows it
  --help, --version       print and end

Each flag has a variable, such as ASYNC_BROKER_LISTEN; flags win over variables, those over the file.
docs/apps/async-broker.md has all keys of the file.
`;
