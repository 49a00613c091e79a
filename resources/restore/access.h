// What a name leads to now, found and opened as those would have who had it open at the checkpoint
// (docs/decisions/0012-names.md).
#pragma once

#include <sys/stat.h>

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "common/fd.h"
#include "resources/restore/rights.h"
#include "resources/schema/object.h"

namespace cairn::restart {

// A file that a name leads to, found and not opened yet: nothing has been asked of it but what it is.
struct FoundFile {
    Fd place;  // O_PATH
    struct stat status {};
    bool by_root = false;  // those who had it can't reach it by its name: only root can
};

class Access {
  public:
    // Everything with the tool's own rights.
    Access() = default;
    // `directory`: where the image lies. What only root could open is opened by root's rights only if nobody
    // but root can write there (common/folder_trust.h).
    Access(const schema::Objects& objects, std::span<const schema::Process> processes,
           const std::string& directory);

    // The rights of everybody who had the object; of all processes if nobody did (it was on its way through a
    // socket).
    [[nodiscard]] std::span<const Rights> of(std::int64_t object) const;

    // Follows no link, for in a path that the kernel has told there was none. Every one of those who had it
    // must be able to reach it. Errors: errno of open(2); ELOOP for a link.
    [[nodiscard]] Result<FoundFile> find(const schema::Object& object, const std::string& path) const;

    // Opens what was found as everybody who had it may: each must be allowed to. By root's rights where one
    // isn't, if the checkpoint can be believed, and it is the very file that it was or one that nobody but
    // root can have put there.
    [[nodiscard]] Result<Fd> open(const schema::Object& object, const std::string& path,
                                  const FoundFile& found, int flags) const;

    // Might everybody who had the object open this for reading? Errors as of open().
    [[nodiscard]] Result<> may_read(const schema::Object& object, const std::string& path,
                                    const FoundFile& found) const;

    // For what is made anew: the rights of one of those who had it, of `user` if he is among them.
    [[nodiscard]] const Rights& one_of(std::int64_t object, std::optional<uid_t> user = {}) const;

    // Of what a user's name leads to: may root's own rights be used, though none of those who had it has that
    // right? Only in folders where nobody but root can change a name.
    [[nodiscard]] bool root_may_make(const std::string& path) const;

    // Is it somebody's executable, or what the contents of one are kept in?
    [[nodiscard]] bool is_executed(std::int64_t object) const { return executed_.contains(object); }

    // Was the member `pid` of the same user as who has these rights, with no more
    // capabilities? Until it has its own rights back its files in /proc are root's.
    [[nodiscard]] bool same_user(ProgramId pid, const Rights& rights) const;

    // Why nothing is opened by root's rights; "" if it may be.
    [[nodiscard]] const std::string& doubt() const { return doubt_; }

  private:
    [[nodiscard]] Result<> allow_root(const schema::Object& object, const std::string& path,
                                      const struct stat& status, const Rights& refused, int problem) const;

    std::map<std::int64_t, std::vector<Rights>> holders_;
    std::map<ProgramId, Rights> members_;
    std::set<std::int64_t> executed_;
    std::vector<Rights> everybody_;
    std::string doubt_;
};

}  // namespace cairn::restart
