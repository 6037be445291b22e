// Checks projects with the oldest TypeScript that the packages support: the projects' own files and the declarations of this
// repository's packages. The declarations of others would take four times as long; `SLUICE_DEEP=1` checks these too.
// `test/packages` runs it with a project of Node's resolution.
import { createRequire } from "node:module";
import { join } from "node:path";

// An import would first search the nine megabytes of the compiler for the names that it exports.
const ts = createRequire(import.meta.url)("typescript");

const OTHERS = /\/node_modules\/(?!(@sluice|sluice)\/)/;

for (const folder of process.argv.slice(2)) {
  const { config } = ts.readConfigFile(join(folder, "tsconfig.json"), ts.sys.readFile);
  const { options, fileNames } = ts.parseJsonConfigFileContent(config, ts.sys, folder);
  const host = ts.createCompilerHost(options);
  // As the compiler's own command does, which reads no documentation comments either.
  host.jsDocParsingMode = ts.JSDocParsingMode.ParseForTypeErrors;
  const program = ts.createProgram(fileNames, options, host);
  const checked = program
    .getSourceFiles()
    .filter((file) => !OTHERS.test(file.fileName) && !program.isSourceFileDefaultLibrary(file));
  const found = [
    ...program.getOptionsDiagnostics(),
    ...program.getGlobalDiagnostics(),
    ...checked.flatMap((file) => [...program.getSyntacticDiagnostics(file), ...program.getSemanticDiagnostics(file)]),
  ];
  for (const { messageText, file } of found) console.log(`${file?.fileName}: ${JSON.stringify(messageText)}`);
  console.log(`checked ${checked.length > 200 ? "all" : "too little"} with ${ts.version}`);
}
