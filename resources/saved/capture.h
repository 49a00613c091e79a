// Files that go back with the program (`--files=save`): docs/decisions/0025-saved-files.md.
//
// save_files() while every process of the group stands still: what it saves is of that moment. What needn't
// be done then (hashes, the way to the disk) is finish_saved_files().
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/error.h"
#include "resources/saved/capture_store.h"
#include "resources/saved/schema.h"

namespace cairn::capture {

struct FileToSave {
    std::string path;  // a member has it open for writing, or mapped shared and writable
    std::uint64_t device = 0, inode = 0;
};

struct SavedFilesWanted {
    std::string cid;
    std::vector<FileToSave> files;
    std::set<FilePlace> mapped;        // may be written without a trace
    std::vector<std::string> folders;  // --with
    std::string images;                // folder of all checkpoints, never saved itself
};

// While the programs run: what there is to be copied ahead, with its times.
[[nodiscard]] Result<schema::SavedFiles> list_files(const SavedFilesWanted& wanted);

// Contents of a file that is as it was at the previous generation are the previous ones (a hard link). Notes:
// what is in the folders and isn't saved.
[[nodiscard]] Result<schema::SavedFiles> save_files(SavedStore& store, const SavedFilesWanted& wanted,
                                                    const CopyTold& told, std::vector<std::string>& notes);

// Fills in hashes, and brings all to the disk.
[[nodiscard]] Result<> finish_saved_files(int directory, SavedStore& store, schema::SavedFiles& saved);

}  // namespace cairn::capture
