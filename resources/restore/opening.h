// What the rooms share while objects are opened.
#pragma once

#include <array>
#include <map>
#include <set>

#include "common/fd.h"
#include "common/proc.h"
#include "resources/restore/cut.h"
#include "resources/restore/holding.h"
#include "resources/restore/objects.h"

namespace cairn::restart {

struct Opening {
    const schema::Objects& objects;
    const ImageReader& image;
    const ObjectSetOptions& options;
    std::vector<std::string>& notes;
    std::int64_t main_terminal;  // TerminalState::pair of the terminal that ObjectSetOptions::terminal
                                 // replaces, -1: none
    Holding opened;              // by object id
    std::map<std::int64_t, Fd>
        own_roots;  // root folders of mount namespaces of the group's own (O_PATH), by object id
    std::map<std::int64_t, Fd> launchers;  // other ends of connections to MPI launchers, by object id
    std::vector<Cut> cuts;                 // ObjectSet::change_files()
    std::map<std::int64_t, Fd> refills;    // files of memory objects that were there, for writing: likewise

    // By object id: terminals that are used by their old names. They may be whoever's by now.
    std::set<std::int64_t> others_terminals;

    // By object id: what stands for it at the descriptors 0, 1 and 2, where that isn't the same (stand_in()).
    std::map<std::int64_t, std::array<Fd, 3>> stand_ins;

    // What led outside as somebody's standard descriptor is the tool's own now, as it would be a new
    // program's. One that could be read and written (a terminal, a socket) may have been several of them: the
    // tool's own are taken one by one. False: the tool has none there.
    [[nodiscard]] bool stand_in(const schema::Object& object);
    // Takes a descriptor over: from now on it is held (holding.h), without close-on-exec.
    [[nodiscard]] Result<> keep(const schema::Object& object, Fd fd);
    [[nodiscard]] Result<> keep_copy(const schema::Object& object, int fd);
    template <class... Args>
    void note(fmt::format_string<Args...> form, Args&&... args) {
        notes.push_back(fmt::format(form, std::forward<Args>(args)...));
    }
};

// An error of what is done for this object, with its name.
[[nodiscard]] Result<> with_name(const schema::Object& object, Result<> done);

// Flags that open(2) may be given again: those that make, cut or claim something are left out.
[[nodiscard]] int reopen_flags(std::int32_t flags);
[[nodiscard]] std::string fd_path(
    int fd);  // /proc/self/fd/N: opening it makes a new description of the same file
[[nodiscard]] std::string mapped_path(const std::string& path, const ObjectSetOptions& options);

// set.cpp
// Who is told of what can be read, and by which signal (F_SETOWN_EX, F_SETSIG, O_ASYNC).
[[nodiscard]] Result<> set_owner(const schema::Object& object, int fd, const ToKernel& to_kernel);

// judge.cpp
struct Verdict {
    enum class Action { fine, use, truncate, make, refuse } action = Action::fine;
    std::string why;  // path included; "" if fine
};
// What its name leads to is left in `found`, if the object has one.
[[nodiscard]] Verdict judge(const schema::Object& object, const ObjectSetOptions& options,
                            FoundFile* found = nullptr);

// file/restore.cpp
// Where the file is if it is in the proc of a pid namespace of the group's own; null: it isn't.
[[nodiscard]] const schema::InOwnMounts* inner_proc_of(const schema::Object& object);
// Only a process itself can open it: a file of /proc/PID, /dev/tty, a userfaultfd.
[[nodiscard]] bool is_late(const schema::Object& object);
// Of these only once all memory and all threads of all processes are there (restart/rebuild/last_files.h):
// what leads to a thread, /proc/PID/maps and such, a userfaultfd.
[[nodiscard]] bool is_last(const schema::Object& object);
[[nodiscard]] std::string kernel_path(const std::string& path, const ToKernel& to_kernel);
// In the process that will have it.
[[nodiscard]] Result<Fd> open_late(const schema::Object& object, const schema::Process& process,
                                   const Access& access, const ToKernel& to_kernel);
// Those of the image whose contents are in a memory object, which is open.
[[nodiscard]] Result<> open_backed_files(Opening& opening);

// memory/restore.cpp
// The contents of a file that was there when the restart began.
[[nodiscard]] Result<> refill_memory(const ImageReader& image, const schema::Object& object, int fd);

// The objects of each pipe (or terminal), which are opened together: those for which `id_of` gives one id.
// -1: the object is of none.
using Group = std::vector<const schema::Object*>;
[[nodiscard]] std::map<std::int64_t, Group> groups(const schema::Objects& objects,
                                                   std::int64_t (*id_of)(const schema::Object&));

// An object's descriptor in the tool; -1: it has none.
using FindObject = std::function<int(std::int64_t object)>;

// When the processes are there.
struct AfterForest {
    const ObjectSetOptions& options;
    const proc::ClockOffsets& ahead;  // what the programs' clocks show more than the tool's
    std::vector<std::string>& notes;
    std::set<std::int64_t> terminals;  // set up already, by TerminalState::pair
    std::function<Result<Lent>(std::int64_t object)> lend;
};
// The rooms' functions that resources/kinds.h names. A description that OpenOne returns gets its flags
// (F_SETFL) from its caller, and is put where processes find it.
template <class Saved>
using OpenOne = Result<Fd>(Opening&, const schema::Object&, const Saved&);
using OpenAll = Result<>(Opening&);
using SetUp = Result<>(const schema::Object&, int fd, AfterForest&);
using BeginWatching = Result<>(const schema::Object&, int fd, const ObjectSetOptions&, const FindObject&);
#define CAIRN_KIND(saved, capture, restore) restore
#define OPEN(saved, function) OpenOne<schema::saved> function;
#define OPEN_ALL(function) OpenAll function;
#define SET_UP(function) SetUp function;
#define WATCH(function) BeginWatching function;
CAIRN_KINDS(CAIRN_KIND)
#undef CAIRN_KIND
#undef OPEN
#undef OPEN_ALL
#undef SET_UP
#undef WATCH

}  // namespace cairn::restart
