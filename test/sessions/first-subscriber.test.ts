/** The first subscriber of a stream gets what was appended before fan-out began to follow that stream. */
import { expect, it } from "vitest";
import { describeAloneAndShared } from "../e2e/server.ts";
import { stage, uuid } from "./stage.ts";

describeAloneAndShared("The first subscriber of a stream", (engine) => {
  it("the first subscriber gets what is appended while it subscribes, without another append", async () => {
    const { api, core, until } = await stage(engine);
    await api.create("s");
    const session = uuid();
    core.fate = ({ method }) => (method === "join" ? "stuck" : undefined);
    const subscribing = api.subscribe(session, "s");
    // The stream has been looked at: what comes now is after the start of the subscription, and no registry is there to owe it.
    await until(() => expect(core.calls.map(({ method }) => method)).toContain("join"));
    await api.append("s", '"meanwhile"');
    core.fate = () => undefined;
    core.release();
    expect((await subscribing).status).toBe(200);
    await until(async () => expect(await api.messages(session)).toEqual(["meanwhile"]));
  });

  it("the first subscriber gets what the stream holds when it asks for that, without another append", async () => {
    const { api, until } = await stage(engine);
    await api.create("s");
    const first = await api.append("s", '"one"');
    await api.append("s", '["two","three"]');
    const [all, some] = [uuid(), uuid()];
    await api.subscribed(all, "s", { from: "-1" });
    await until(async () => expect(await api.messages(all)).toEqual(["one", "two", "three"]));
    await api.subscribed(some, "s", { from: first });
    await until(async () => expect(await api.messages(some)).toEqual(["two", "three"]));
  });
});
