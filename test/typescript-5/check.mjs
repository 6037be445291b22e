// Checks a project with the oldest TypeScript that the packages support: the project's own files and the declarations of this
// repository's packages. The declarations of others would take four times as long. `test/packages` runs it with two folders: a
// project of Node's resolution, then one of a bundler's, whose imports are resolved only.
import { join } from "node:path";
import ts from "typescript";

const OURS = /\/(node_modules\/(@sluice|sluice)|nodenext)\//;
const [nodenext, bundler] = process.argv.slice(2);

const { config } = ts.readConfigFile(join(nodenext, "tsconfig.json"), ts.sys.readFile);
const { options, fileNames } = ts.parseJsonConfigFileContent(config, ts.sys, nodenext);
const program = ts.createProgram(fileNames, options);
const checked = program.getSourceFiles().filter(({ fileName }) => OURS.test(fileName));
const found = [
  ...program.getOptionsDiagnostics(),
  ...checked.flatMap((file) => [...program.getSyntacticDiagnostics(file), ...program.getSemanticDiagnostics(file)]),
];
for (const { messageText, file } of found) console.log(`${file?.fileName}: ${JSON.stringify(messageText)}`);

const from = join(bundler, "every-entry.ts");
const entries = ts.preProcessFile(ts.sys.readFile(from)).importedFiles.map(({ fileName }) => fileName);
const resolution = { moduleResolution: ts.ModuleResolutionKind.Bundler, module: ts.ModuleKind.ESNext };
for (const name of entries) {
  if (!ts.resolveModuleName(name, from, resolution, ts.sys).resolvedModule)
    console.log(`${from}: cannot resolve ${name}`);
}
console.log(`checked ${checked.length > 200 && entries.length > 5 ? "all" : "too little"} with ${ts.version}`);
