// Imports the programs that it is given, one after another and each with an option that none has. They share what they
// import, so that it is loaded once. Prints, as a JSON object by program, what each says.
import { pathToFileURL } from 'node:url';

const [node = '', , ...programs] = process.argv;
/** @type {Record<string, string>} */
const said = {};
for (const program of programs) {
  let text = '';
  process.stderr.write = (/** @type {string | Uint8Array} */ chunk) => {
    text += chunk.toString();
    return true;
  };
  process.argv = [node, program, '--no-such-option'];
  try {
    await import(pathToFileURL(program).href);
  } catch (error) {
    text += error instanceof Error ? error.message : String(error);
  }
  said[program] = text;
}
process.stdout.write(JSON.stringify(said));
// Some say what is wrong by their exit code.
process.exitCode = 0;
