// The contents of saved files, in the folder files/ of a generation: made ahead while the programs run, and
// what has changed since when they stand still.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/error.h"
#include "common/fd.h"
#include "resources/saved/capture_copy.h"
#include "resources/saved/schema.h"

namespace cairn::capture {

using FilePlace = std::pair<std::uint64_t, std::uint64_t>;  // device, inode

class SavedStore {
  public:
    // In the generation's folder `directory`; `previous`: folder of an older generation, or "".
    [[nodiscard]] static Result<SavedStore> make(int directory, const std::string& previous);

    // While the programs run. `files`: as they were listed before; every thread of the group has been outside
    // of the kernel since then, and `mapped` was mapped shared and writable at that moment. `doubtful`: that
    // isn't known, or somebody writes who is no thread; no copy is believed by the file's times alone then.
    // What was brought ahead earlier and hasn't changed is left. Returns the bytes that were written.
    [[nodiscard]] Result<std::uint64_t> copy_ahead(const std::vector<schema::SavedFile>& files,
                                                   const std::set<FilePlace>& mapped, bool doubtful,
                                                   const CopyTold& told);

    // The others while all stand still.

    // What was brought ahead of this file, and is still so; null: its contents have to be looked at.
    [[nodiscard]] const schema::SavedFile* unchanged(const struct stat& status,
                                                     const std::set<FilePlace>& mapped) const;
    // The contents as they are now. Sets file.stored, and file.hash if it is known.
    [[nodiscard]] Result<> store(schema::SavedFile& file, int opened, const std::set<FilePlace>& mapped,
                                 const CopyTold& told);

    // Copies that nobody wants after all go.
    void keep_only(const std::vector<schema::SavedFile>& files);

  private:
    enum class How { linked, cloned, copied, plain };
    struct Copy {
        std::string name;
        How how = How::plain;
        // Who has written since it was made has set other times.
        bool steady = false;
        schema::SavedFile file;  // as it was listed
        BlockCopy blocks;        // of How::copied
    };

    [[nodiscard]] Result<std::uint64_t> bring(Copy& copy, int opened, std::uint64_t size, bool ahead,
                                              const CopyTold& told);
    [[nodiscard]] bool link_previous(Copy& copy, const schema::SavedFile& file,
                                     const std::set<FilePlace>& mapped);
    [[nodiscard]] Result<Fd> open_new(const std::string& name) const;
    [[nodiscard]] std::string new_name() { return std::to_string(next_++); }

    Fd store_, previous_store_;
    std::map<FilePlace, schema::SavedFile> previous_;
    std::map<FilePlace, Copy> copies_;
    std::uint64_t next_ = 0;
};

// Where a write always sets the times of the inode, by this machine's clock.
[[nodiscard]] bool tells_of_writes(int file);

[[nodiscard]] Result<std::vector<std::string>> names_in_folder(int folder);

}  // namespace cairn::capture
