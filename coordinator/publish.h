// Folders of checkpoints: D/<cid>/<generation>/, made as <generation>.partial and renamed when everything in
// it is on the disk. D/latest and D/restart.sh lead to the newest one.
//
// These functions block on the disk; the coordinator calls them in a thread of their own.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/fd.h"
#include "common/schema/manifest.h"

namespace cairn::coordinator {

// A folder under construction. Its lock (flock) tells it from one that a killed coordinator left.
struct Partial {
    std::string root;  // D
    std::string cid;
    std::uint32_t generation = 0;
    Fd lock;

    [[nodiscard]] std::string folder() const { return root + "/" + cid; }
    [[nodiscard]] std::string partial() const {
        return folder() + "/" + std::to_string(generation) + ".partial";
    }
    [[nodiscard]] std::string final() const { return folder() + "/" + std::to_string(generation); }
};

// Makes D and D/<cid> if they are missing and D/<cid>/<n>.partial, n being one more than the highest that is
// there. Removes what killed coordinators left in D/<cid>. Two sessions may do this in the same folder at the
// same time.
[[nodiscard]] Result<Partial> begin_checkpoint(const std::string& root, const std::string& cid);

// One more than the highest generation that is there or under way.
[[nodiscard]] std::uint32_t next_generation(const std::string& root, const std::string& cid);

// This host's part of a checkpoint over several hosts: D/<cid>/<n>.partial/<host>/. The folder around it may
// be shared with other hosts (a file system that several have); the inner one is this host's alone, and has
// its lock.
struct PartFolder {
    Partial whole;     // its lock is shared: every host of the checkpoint may have it
    std::string host;  // name of the folder
    [[nodiscard]] std::string partial() const { return whole.partial() + "/" + host; }
};
[[nodiscard]] Result<PartFolder> begin_part(const std::string& root, const std::string& cid,
                                            std::uint32_t generation, const std::string& host);
// Writes the part's manifest. Everything is on the disk then but the name of the folder.
[[nodiscard]] Result<> seal_part(const PartFolder& part, const schema::Manifest& manifest);
// Renames, moves the links; `whole`: the manifest of all hosts, without images. A host that finds the folder
// renamed by another one has nothing left to do. Hosts do this one after the other.
[[nodiscard]] Result<std::vector<std::string>> publish_part(PartFolder& part, const schema::Manifest& whole);
// Before it is published, or after: what is this host's goes.
void abandon_part(PartFolder& part);
// A host's name as a folder's.
[[nodiscard]] std::string folder_of_host(const std::string& host);

// Bytes that we may still write below `folder`; nothing if the file system doesn't say.
[[nodiscard]] Result<std::uint64_t> free_space(const std::string& folder);

// Writes manifest.json and restart.sh, syncs, renames, moves the links. `step` is told the name of each step
// before it begins (tests end the process there): manifest script sync rename latest restart done. Returns
// notes for the user (a link that could not be moved because something else has its name).
[[nodiscard]] Result<std::vector<std::string>> publish(Partial& partial, const schema::Manifest& manifest,
                                                       const std::function<void(const char*)>& step = {});

// Removes everything of a checkpoint that was given up.
void abandon(Partial& partial);

// Generations in D/<cid> that are complete, ascending.
[[nodiscard]] std::vector<std::uint32_t> complete_generations(const std::string& folder);

// Removes complete generations so that the `keep` newest stay (0: all stay). Never the newest, never one of
// `in_use` (paths). Returns those that are gone.
std::vector<std::uint32_t> prune(const std::string& root, const std::string& cid, std::uint32_t keep,
                                 const std::vector<std::string>& in_use);

// The script that a checkpoint carries. `cairn`: absolute path of the command.
[[nodiscard]] std::string restart_script(const schema::Manifest& manifest, const std::string& cairn);

// Where the `cairn` command is that belongs to this program: beside it, else ../../bin (an installed tree),
// else "cairn".
[[nodiscard]] std::string cairn_command();

}  // namespace cairn::coordinator
