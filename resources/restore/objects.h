// Opens again what descriptors and mappings led to: files, pipes, terminals, shared memory.
//
// Every open file description is opened once, in the tool, before the forest is forked; all processes inherit
// all of them at high numbers and put them in place themselves (install). So descriptions that were shared
// are shared again. Where there are too many for that, they are kept by other processes (holding.h), and
// fetched from there one by one.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/error.h"
#include "common/fd.h"
#include "common/image/reader.h"
#include "common/proc.h"
#include "common/region.h"
#include "common/schema/process.h"
#include "common/wire/connections.h"
#include "resources/restore/access.h"
#include "resources/restore/holding.h"
#include "resources/schema/object.h"

namespace cairn::restart {

// What to do with a file that isn't what it was when the checkpoint was taken. Whatever the choice: a file
// that is executed or mapped, and has changed, is refused, for the image doesn't hold its contents.
enum class FilePolicy {
    by_rule,   // refuse, but: one that members had open for writing is used as it is, and cut back (cut.h) if
               // it was open with O_APPEND, has only grown, and nobody else can be seen to write it
    refuse,    // any change
    use,       // take it as it is
    truncate,  // cut back what has grown and was open for writing (cut.h), else as by_rule
    make,      // what was open for writing and is gone is made anew, empty, else as by_rule
};

// An id as the programs know it -> the kernel's now.
using ToKernel = std::function<KernelId(ProgramId)>;
// Empty: they are the same numbers.
[[nodiscard]] inline KernelId kernel_id(const ToKernel& to_kernel, ProgramId id) {
    return to_kernel ? to_kernel(id) : kernel_id_of_same_number(id);
}

struct ObjectSetOptions {
    // Old prefix of a path -> new one; the longest that fits.
    std::vector<std::pair<std::string, std::string>> path_map;
    FilePolicy files = FilePolicy::by_rule;
    // Of those that are gone (as mapped by path_map): files_to_make().
    std::set<std::string> remade;
    // Files that are opened for writing only because a mapping of theirs was (open_as_mapped()): object ids.
    std::set<std::int64_t> writable_mappings;
    // Who had what, and so with whose rights it is looked up.
    Access access;
    // Where the generation lies, for what a restart puts aside.
    std::string directory;
    // Processes get the ids that they had.
    bool exact_ids = false;
    // Connections to other parts (resources/tcp/restore_links.h); empty: there are none. Where names of
    // sockets are put that the kernel can't give any more; null: nowhere.
    std::function<Result<std::vector<wire::PartEnd>>(std::vector<wire::PartEnd> ends)> meet_links;
    std::function<Result<>()> still_wanted;  // an error once another part has given up; empty: always
    std::vector<std::string> hosts;          // addresses that the computation's hosts have now
    Region* region = nullptr;
    // Above every descriptor that a process of the image has, and above every one that the tool's children
    // need.
    int floor = 512;
    // Not 0: the descriptors don't fit (DescriptorRoom). Ids that no helping process may have, then.
    int width = 0;
    std::set<KernelId> avoid;
    // What the terminal that the programs were started from is replaced by; -1: nothing, standard descriptors
    // stand in.
    int terminal = -1;
    // False where the programs come back as a background job: the shell has the terminal then, and its modes
    // are those with which the shell reads its next line.
    bool terminal_modes = true;
    // What pipes and sockets that led outside are replaced by where they were somebody's descriptor 0, 1
    // or 2.
    std::array<int, 3> standard{0, 1, 2};
};

// mq_notify(3): only the process itself can ask for it.
struct Notification {
    ProgramFd fd;
    int notify = 0;  // SIGEV_*
    int signal = 0;  // of SIGEV_THREAD: the netlink socket's descriptor, which the kernel takes in its place
    std::uint64_t value = 0;
    std::uint64_t queue = 0;
    schema::Bytes notice;  // of SIGEV_THREAD: what the value points to
};

// Buffers of an io_uring: they are in the process's own memory.
struct BuffersToRegister {
    ProgramFd ring;
    std::vector<schema::RingBuffer> buffers;
};

// What is put at its number by the restorer, when nothing of the restart's own is open any more.
struct PostponedDescriptor {
    ProgramFd fd;
    Kept kept;
    ProgramFd twin;  // if there is one: a duplicate of this number, which is there already
};
struct Postponed {
    int first_own = 0, last_own = -1;              // these are closed before; none: nothing is postponed
    std::vector<PostponedDescriptor> descriptors;  // in this order
    ProgramFd seat;                                // a free number, or the one of the last of them
};

// Files that were open for writing and aren't there any more, to be made anew, empty: those that were open
// with O_APPEND only (a log that has been rotated or removed), and by FilePolicy::make all.
[[nodiscard]] std::set<std::string> files_to_make(const schema::Objects& objects,
                                                  const ObjectSetOptions& options);

// A shared mapping that mprotect(2) can make writable is of a file that was opened for writing, though nobody
// may have it open any more, and though the mapping is for reading (LMDB, bbolt); or of memory that was made
// to be written to. Returns the files of which only that tells.
[[nodiscard]] std::set<std::int64_t> open_as_mapped(schema::Objects& objects,
                                                    std::span<const schema::Process> processes);

// Are all files there, and what they were? Opens nothing for good, changes nothing. Errors
// (ExitCode::refused) name every file that is missing or has changed; notes say what will be used or cut.
[[nodiscard]] Result<> check_files(const schema::Objects& objects, const ObjectSetOptions& options,
                                   std::vector<std::string>& notes);

class ObjectSet {
  public:
    // check_files(), then opens everything. The descriptors are not close-on-exec. `image` and `objects` are
    // used during the call only. Raises the soft limit of open files to the hard one.
    [[nodiscard]] static Result<ObjectSet> open_all(const schema::Objects& objects, const ImageReader& image,
                                                    const ObjectSetOptions& options,
                                                    std::vector<std::string>& notes);
    ObjectSet(ObjectSet&&) noexcept;
    ObjectSet& operator=(ObjectSet&&) noexcept;
    ~ObjectSet();  // closes all. Must happen before the programs go on: an end of a pipe that the tool holds
                   // delays EOF

    // The description (for mapped files and memory: open for what the mapping needs; cwd and root: for
    // fchdir), -1 if there is no such object or only a process itself can open it, or if somebody else keeps
    // it.
    [[nodiscard]] int fd_of(std::int64_t object) const;
    // The same, whoever keeps it.
    [[nodiscard]] Result<Lent> lend(std::int64_t object) const;
    // Work in a network or IPC namespace of the group's own (resources/namespace/restore.h).
    [[nodiscard]] Result<> in_own_space(std::int64_t space, const std::function<Result<>()>& work) const;
    // In the process, after install() and until its memory is there, for what it maps, executes and stands
    // in; else as fd_of().
    [[nodiscard]] int place_of(const schema::Process& process, std::int64_t object) const;

    // In the tool, before the forest is forked, and when all that its processes inherit is open.
    [[nodiscard]] Result<> hand_to_keepers();

    // The launcher's end of an MPI program's connection to its launcher (Object::extra has "pmi_rank"); none
    // if the object is no such, or it was taken already.
    [[nodiscard]] Fd take_launcher(std::int64_t object);

    // In the tool, once every process of the forest is there, and before install(): what leads to processes.
    [[nodiscard]] Result<> open_processes(const ToKernel& to_kernel);

    // In the process, after the whole forest is there and before its exec: each descriptor of it at its
    // number, not close-on-exec; `keep` (all at or above the floor) stays open, everything else is closed.
    [[nodiscard]] Result<> install(const schema::Process& process, std::span<const int> keep,
                                   const ToKernel& to_kernel) const;

    // What install() has left out, by the tool's own look at it.
    [[nodiscard]] Result<Postponed> postponed(const schema::Process& process) const;

    // What the process has asked to be told of by its message queues.
    [[nodiscard]] std::vector<Notification> notifications(const schema::Process& process) const;

    // What the process has to register with its rings of io_uring once its memory is restored.
    [[nodiscard]] std::vector<BuffersToRegister> ring_buffers(const schema::Process& process) const;

    // In the tool, once all processes have mapped their memory: owners and signals of descriptions
    // (F_SETOWN), seals that would have forbidden the mapping, settings of terminals; timers run from here
    // on.
    // `ahead`: what their clocks show more than the tool's.
    [[nodiscard]] Result<> after_forest(const ToKernel& to_kernel, const proc::ClockOffsets& ahead,
                                        std::vector<std::string>& notes);

    // In the tool, once nothing but letting the programs go is left: files that were there already are cut
    // back and filled, and what is watched is watched. Until here no byte that others have written is gone.
    [[nodiscard]] Result<> change_files(const ImageReader& image, std::vector<std::string>& notes);

    // The terminal that controls this process's session, for TIOCSCTTY by the session's leader; -1: none, or
    // one that isn't ours to take.
    [[nodiscard]] Lent controlling_terminal(const schema::Process& process) const;

    // Makes `group` (kernel's id) the foreground group. Must be called in a process of the terminal's
    // session.
    // Of a self-contained image: files that are here as they were are used, the image's copies stand in for
    // the others. Before check_files.
    static void prefer_files(schema::Objects& objects, const ObjectSetOptions& options,
                             std::vector<std::string>& notes);

    [[nodiscard]] static Result<> set_foreground(int terminal, KernelId group);

  private:
    struct State;
    class Postponing;
    explicit ObjectSet(std::unique_ptr<State> state);
    [[nodiscard]] Result<> start_watching();
    [[nodiscard]] Result<> install_narrow(const schema::Process& process, std::span<const int> keep,
                                          const ToKernel& to_kernel) const;
    [[nodiscard]] Result<Fd> fetch(std::int64_t object) const;
    [[nodiscard]] Result<Fd> open_here(const schema::Object& object, const schema::Process& process,
                                       const ToKernel& to_kernel) const;
    [[nodiscard]] int descriptor_of(const schema::Process& process, std::int64_t object) const;
    std::unique_ptr<State> state_;
};

}  // namespace cairn::restart
