// cross-check FOLDER
//
// Verifies FOLDER/ours.json with FOLDER/key.pem through npm's @sigstore/verify, refuses it after a change, and signs the same
// statement with FOLDER/private.pem as FOLDER/theirs.json. MODULES is the folder with node_modules; PASSPHRASE opens the key.
import crypto from "node:crypto";
import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";

const folder = process.argv[2];
const load = createRequire(path.join(process.env.MODULES, "index.js"));
const { bundleFromJSON, bundleToJSON, toDSSEBundle } = load("@sigstore/bundle");
const { Verifier, toSignedEntity, toTrustMaterial } = load("@sigstore/verify");
const read = (name) => fs.readFileSync(path.join(folder, name));

const publicKey = crypto.createPublicKey(read("key.pem"));
const spki = publicKey.export({ type: "spki", format: "der" });
const hint = crypto.createHash("sha256").update(spki).digest("base64");
const root = { mediaType: "", tlogs: [], certificateAuthorities: [], ctlogs: [], timestampAuthorities: [] };
const find = (named) => {
    if (named !== hint) throw new Error(`the bundle names the key ${named}, and this is ${hint}`);
    return { publicKey, validFor: () => true };
};
const options = { tlogThreshold: 0, ctlogThreshold: 0, tsaThreshold: 0 };
const verify = (bundle) => new Verifier(toTrustMaterial(root, find), options).verify(toSignedEntity(bundle));

const json = JSON.parse(read("ours.json"));
const ours = bundleFromJSON(json);
verify(ours);

const changed = structuredClone(json);
const statement = Buffer.from(changed.dsseEnvelope.payload, "base64").toString().replace("greeter", "grabber");
changed.dsseEnvelope.payload = Buffer.from(statement).toString("base64");
let isRefused = false;
try {
    verify(bundleFromJSON(changed));
} catch {
    isRefused = true;
}
if (!isRefused) throw new Error("a changed statement was accepted");

const { payload, payloadType } = ours.content.dsseEnvelope;
const head = `DSSEv1 ${payloadType.length} ${payloadType} ${payload.length} `;
const key = crypto.createPrivateKey({ key: read("private.pem"), passphrase: process.env.PASSPHRASE });
const digest = key.asymmetricKeyType === "ed25519" ? null : "sha256";
const signature = crypto.sign(digest, Buffer.concat([Buffer.from(head), payload]), key);
const theirs = toDSSEBundle({ artifact: payload, artifactType: payloadType, signature, keyHint: hint });
fs.writeFileSync(path.join(folder, "theirs.json"), JSON.stringify(bundleToJSON(theirs)));
