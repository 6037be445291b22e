import { expect, it } from "vitest";
import { codeOf } from "../../../../test/support/refusal-code.ts";
import { parseFilter } from "./filter.ts";

const message = { domain: "com", "iana.org/language_tag": "en", region: "us-east1", "a-b": "1", note: 'say "hi"' };

it.each([
  ["attributes:domain", true],
  ["attributes:missing", false],
  ["attributes:toString", false],
  ["NOT attributes:missing", true],
  ["-attributes:domain", false],
  ["NOT NOT attributes:domain", true],
  ['attributes.domain = "com"', true],
  ['attributes.domain="org"', false],
  ['attributes.domain != "com"', false],
  ['attributes.missing != "com"', true],
  ['attributes."iana.org/language_tag" = "en"', true],
  ['attributes:"iana.org/language_tag"', true],
  ['attributes.a-b = "1"', true],
  ['attributes.note = "say \\"hi\\""', true],
  ['attributes.domain = "c\\u006fm"', true],
  ['hasPrefix(attributes.region, "us-")', true],
  ['-hasPrefix(attributes.region, "us-")', false],
  ['hasPrefix(attributes.missing, "us-")', false],
  ['attributes:domain AND attributes.region = "eu"', false],
  ['attributes:domain OR attributes.region = "eu"', true],
  ["(attributes:domain OR attributes:x) AND NOT attributes:y", true],
  [' attributes:domain AND -(attributes:x OR attributes.region = "us-east1") ', false],
])("the filter %s is %s for the message", (filter, matches) => {
  expect(parseFilter(filter)(message)).toBe(matches);
});

it.each([
  "",
  "domain",
  "attributes.domain = com",
  "attributes.domain",
  'attributes:a AND attributes:b OR attributes.c = "d"',
  "attributes:a attributes:b",
  "(attributes:a",
  'hasPrefix("a", "b")',
  'attributes.a = "b',
  "attributes:a and attributes:b",
  `attributes:${"a".repeat(250)}`,
])("the text %s is refused as a filter", async (text) => {
  expect(await codeOf(() => parseFilter(text))).toBe("bad-filter");
});
