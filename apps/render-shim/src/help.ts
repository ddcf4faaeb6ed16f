import { profileUsage } from './profile-command.ts';

/** What `--help` prints. */
export const helpText = `Usage:
  render-shim [FLAGS]       starts the render shim
  render-shim ${profileUsage}
                            copies what rendering needs of a model, and says what is supported

Flags:
  --config FILE             the configuration file
  --listen HOST:PORT        listen address (default :8080)
  --log-level N             1 warnings to 5 everything
  --profile DIR             directory of the model's files
  --served-model-name NAME  a name that requests may use; may be repeated
  --help, --version         print and end

Each flag has a variable, such as SHIM_LISTEN; flags win over variables, those over the file.
docs/apps/render-shim.md has all keys of the file.
`;
