/** What `--help` prints. */
export const helpText = `Usage:
  media-fetcher [FLAGS]  starts the media fetcher

Flags:
  --config FILE          the configuration file
  --listen HOST:PORT     listen address (default 127.0.0.1:8083); any but loopback needs tokens
  --log-level N          1 warnings to 5 everything
  --token-file FILE      tokens that callers show, one a line
  --help, --version      print and end

Every key of the file can be set by environment, such as MEDIA_LISTEN; flags win over variables, those over the file.
docs/apps/media-fetcher.md has all keys.
`;
