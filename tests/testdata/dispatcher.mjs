// A dispatcher that claims one id again and again, as entwurf's own module does: the same
// calls in the same order, in the same language, with nothing beyond. It has no kernel
// lock, and judges a holder by kill(pid, 0) alone. It never waits, and never looks twice
// where the module looks once.
//
// usage: node dispatcher.mjs DIR ID LOG STOP
//
// It works in children, each of which dies by SIGKILL sooner or later, at a place where
// that leaves a dead claim, or a marker, or both, behind. (Not between the creation of
// a claim and its text: what that leaves only a hand may remove.)
//
// LOG gets a line for each claim had, and one for each given up; the file STOP ends it.

import { spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import * as fs from "node:fs";
import * as os from "node:os";
import * as path from "node:path";

const OWNER = "entwurf_v2";

function mayDie(odds) {
	if (Math.random() < odds) process.kill(process.pid, "SIGKILL");
}

function fail(why) {
	console.error(why);
	process.exit(1);
}

function sleep(ms) {
	Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

/** parseLockClaim: the claim, or null for what is empty, corrupt or another id's. */
function parse(raw, gid) {
	let o;
	try {
		o = JSON.parse(raw);
	} catch {
		return null;
	}
	if (typeof o !== "object" || o === null) return null;
	const whole = typeof o.gardenId === "string" && typeof o.pid === "number" && typeof o.hostname === "string" &&
		typeof o.createdAt === "string" && typeof o.nonce === "string" && o.owner === OWNER;
	return whole && o.gardenId === gid ? o : null;
}

/** classifyProcessLiveness: only ESRCH is dead. */
function isDead(pid) {
	try {
		process.kill(pid, 0);
		return false;
	} catch (err) {
		return err.code === "ESRCH";
	}
}

class Lock {
	constructor(folder, gid) {
		this.folder = folder;
		this.gid = gid;
		this.path = path.join(folder, gid + ".lock");
		this.marker = this.path + ".reclaim";
	}

	read() {
		return parse(fs.readFileSync(this.path, "utf8"), this.gid);
	}

	readHolder() {
		try {
			return this.read();
		} catch {
			return null;
		}
	}

	/** tryCreate: null if the claim is ours now, else why not. */
	create(claim) {
		let fd;
		try {
			fd = fs.openSync(this.path, "wx");
		} catch (err) {
			return err.code;
		}
		fs.writeSync(fd, JSON.stringify(claim) + "\n");
		fs.closeSync(fd);
		return null;
	}

	/** acquireLock: the claim, or null for a conflict. All else is thrown. */
	acquire() {
		fs.mkdirSync(this.folder, { recursive: true });
		const claim = {
			gardenId: this.gid, pid: process.pid, hostname: os.hostname(), createdAt: new Date().toISOString(),
			nonce: randomBytes(8).toString("hex"), owner: OWNER, lockPath: this.path,
		};
		const why = this.create(claim);
		if (why === null) return claim;
		if (why !== "EEXIST") throw new Error("failed to acquire: " + why);
		let holder;
		try {
			holder = this.read();
		} catch (err) {
			if (err.code === "ENOENT") return this.create(claim) === null ? claim : null;
			throw err;
		}
		if (holder === null || holder.hostname !== os.hostname() || !isDead(holder.pid)) return null;
		let marker;
		try {
			marker = fs.openSync(this.marker, "wx");
		} catch (err) {
			if (err.code === "EEXIST") return null;
			throw err;
		}
		try {
			mayDie(0.05);
			const current = this.readHolder();
			if (current === null || current.nonce !== holder.nonce) return null;
			mayDie(0.05);
			try {
				fs.unlinkSync(this.path);
			} catch (err) {
				if (err.code !== "ENOENT") throw err;
			}
			mayDie(0.05);
			if (this.create(claim) !== null) return null;
			mayDie(0.05);
			return claim;
		} finally {
			fs.closeSync(marker);
			mayDie(0.02);
			try {
				fs.unlinkSync(this.marker);
			} catch {
				// as the module has it
			}
		}
	}

	/** releaseLock. */
	release(claim) {
		let onDisk;
		try {
			onDisk = this.read();
		} catch (err) {
			if (err.code === "ENOENT") return "absent";
			throw err;
		}
		if (onDisk === null || onDisk.nonce !== claim.nonce) return "not-owned";
		try {
			fs.unlinkSync(this.path);
		} catch (err) {
			if (err.code === "ENOENT") return "absent";
			throw err;
		}
		return "released";
	}
}

function hasGone(pid) {
	for (let i = 0; i < 1000; i++) {
		try {
			const stat = fs.readFileSync(`/proc/${pid}/stat`, "latin1");
			if ("ZX".includes(stat[stat.lastIndexOf(")") + 2])) return true;
		} catch {
			return true;
		}
		sleep(1);
	}
	return false;
}

/** Puts up a mark that only one can put up, and takes it down again. */
function alone(mark) {
	for (;;) {
		try {
			fs.symlinkSync(String(process.pid), mark);
			break;
		} catch (err) {
			if (err.code !== "EEXIST") throw err;
			const owner = fs.readlinkSync(mark);
			if (!hasGone(owner)) fail(`not alone: pid ${owner} is at work too`);
			fs.unlinkSync(mark);
		}
	}
	mayDie(0.01);
	fs.unlinkSync(mark);
}

function work(folder, gid, log) {
	const lock = new Lock(folder, gid);
	const out = fs.openSync(log, "a", 0o600);
	const say = (what, claim) => fs.writeSync(out, `${what} node ${claim.nonce} ${process.pid}\n`);
	for (let i = 0; i < 500; i++) {
		sleep(Math.random() * 2); // let the others run
		const claim = lock.acquire();
		if (claim === null) continue;
		say("acquired", claim);
		alone(path.join(folder, "only.mark"));
		say("releasing", claim);
		const outcome = lock.release(claim);
		if (outcome !== "released") fail("releasing a claim of ours: " + outcome);
	}
}

const [folder, gid, log, stop, child] = process.argv.slice(2);
if (child) {
	work(folder, gid, log);
} else {
	const parent = process.ppid;
	while (!fs.existsSync(stop) && process.ppid === parent) {
		const done = spawnSync(process.execPath, [process.argv[1], folder, gid, log, stop, "child"], { stdio: "inherit" });
		if (done.signal === "SIGKILL") console.log("died");
		else if (done.status !== 0) fail(`a child ended with status ${done.status}, ${done.signal}`);
	}
}
