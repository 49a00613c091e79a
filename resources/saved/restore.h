// Puts saved files back, and keeps aside what is there instead: docs/decisions/0025-saved-files.md.
//
// plan() looks, stage() makes everything that is to be put back under names of its own beside the places, and
// commit() renames: up to there nothing that anybody has written has moved. A restart that is killed anywhere
// is begun again, and does the rest.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/fd.h"
#include "resources/saved/schema.h"

namespace cairn::restart {

class PutBack {
  public:
    // `directory`: the generation's. `now_at`: where a path of the program's is now (--path-map). Reads all
    // saved contents and compares their checksums. Errors: ExitCode::damaged for these, refused for what
    // can't be put back.
    [[nodiscard]] static Result<PutBack> plan(const std::string& directory,
                                              const std::function<std::string(const std::string&)>& now_at,
                                              std::vector<std::string>& notes);
    PutBack(const PutBack&) = delete;
    PutBack(PutBack&&) = default;
    PutBack& operator=(PutBack&&) = delete;
    ~PutBack();  // what was staged and not committed goes

    // A folder of a generation that has saved files.
    [[nodiscard]] static bool is_in(const std::string& directory);

    // Is what this path (as it is now) leads to put back? Then what is there meanwhile doesn't matter.
    [[nodiscard]] bool covers(const std::string& path) const { return places_.contains(path); }
    // Where it is between stage() and commit(); "": nowhere yet, or where it belongs.
    [[nodiscard]] const std::string& staged(const std::string& path) const;

    [[nodiscard]] Result<> stage();
    [[nodiscard]] Result<> commit(std::vector<std::string>& notes);

  private:
    enum class Work { keep, set_times, put };
    struct Entry {
        schema::SavedFile file;
        std::string path;    // now
        std::string staged;  // name beside it; "" if there is none
        Work work = Work::put;
        bool there = false;  // something has the name
    };
    struct Kept {
        std::string path;  // folder that is made for what is kept of one of --with
        std::size_t files = 0;
    };

    PutBack() = default;
    [[nodiscard]] Result<> verify() const;
    [[nodiscard]] Result<> look(Entry& entry, std::vector<std::string>& notes) const;
    [[nodiscard]] Result<bool> is_as_saved(const Entry& entry, int file, const struct stat& now) const;
    void separate_links();
    [[nodiscard]] Result<> find_extra(const std::string& folder, std::int64_t number);
    [[nodiscard]] Result<> stage_file(Entry& entry);
    [[nodiscard]] Result<> stage_folder(Entry& entry);
    [[nodiscard]] Result<> put_in_place(Entry& entry, std::vector<std::string>& notes);
    [[nodiscard]] Result<std::string> keep(const std::string& path, std::int64_t folder, bool move);
    [[nodiscard]] Result<std::string> place_for_kept(std::int64_t folder);
    void sync();

    std::string directory_;  // of the generation
    pid_t maker_ = 0;        // who has staged: not a process that was forked since
    bool committed_ = false;
    std::vector<std::string> folders_;  // as they are now
    std::vector<Entry> entries_;
    std::vector<std::pair<std::string, std::int64_t>> extra_;  // path, number of its folder
    std::map<std::string, std::size_t> places_;                // path -> entry
    std::map<std::string, std::string> first_staged_;          // contents -> path of their first name
    std::map<std::int64_t, Kept> kept_;
};

}  // namespace cairn::restart
