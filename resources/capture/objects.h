// Everything behind descriptors and mappings: open files, pipes, terminals, shared memory.
//
// Read from outside while every process of the group stands still: pidfd_getfd(2) gives a duplicate of each
// descriptor (the same open file description; take.h), kcmp(2) tells descriptions apart, /proc/PID/fdinfo and
// ioctls say the rest. Nothing is consumed, moved or changed.
//
// Order of use: descriptors(), file(), mapped_file(), shared_memory(), terminal_of() in any order and for all
// processes; capture_contents(); release(); then the processes may go on; finish(); take().
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/external_policy.h"
#include "common/fd.h"
#include "common/image/writer.h"
#include "common/ipc_map.h"
#include "common/proc.h"
#include "common/region.h"
#include "common/schema/process.h"
#include "common/wire/connections.h"
#include "resources/schema/object.h"

namespace cairn::capture {

struct Table;
class CopiedMemory;

// A process that stands still. Ids are the kernel's.
struct Holder {
    pid_t pid = 0;
    int pidfd =
        -1;  // of `pid`, borrowed; where the main thread has exited: of `tid` (PIDFD_THREAD, since Linux 6.9)
    pid_t tid = 0;  // a living thread; 0: pid
};

// A line of /proc/PID/maps.
struct Mapping {
    ProgramAddress start, end;
    std::uint64_t offset = 0;
    dev_t device = 0;  // makedev(major, minor) of the line
    ino_t inode = 0;
    std::string path;  // as the line says; " (deleted)" at the end may be there or cut off
    bool deleted = false;
    bool shared = false,
         writable = false;  // writable: now, or after an mprotect that the kernel would allow (VmFlags mw)
    std::uint64_t huge_page = 0;  // bytes, of hugetlb pages; 0: it has none
};

// Without what smaps alone tells: writable, huge_page.
[[nodiscard]] Mapping mapping_of(const proc::MapLine& line);

// Waits for the other hosts, until all have said theirs. Empty: there are none.
struct MeetHosts {
    std::function<Result<wire::MatchedConnections>(const wire::HostConnections& ours)> connections;
    std::function<Result<>()> flowed;
    explicit operator bool() const { return connections != nullptr; }
};

// See ObjectOptions::renew_notice.
struct RenewedNotice {
    ProgramFd socket;
    schema::Bytes bytes;
};

struct ObjectOptions {
    ExternalPolicy external = ExternalPolicy::reset;
    // Kernel's id -> id as the programs know it (virtual ids of a restored group). Empty: the same.
    std::function<ProgramId(KernelId)> to_program;
    // mincore(2) done in the process: a byte for each page of [start, start+length). Lets an ordinary user
    // tell untouched pages of shared memory that no descriptor leads to. Empty: all its pages are read, which
    // fills its holes.
    std::function<Result<std::vector<std::uint8_t>>(const Holder&, ProgramAddress start,
                                                    std::uint64_t length)>
        mincore;
    // Lets the process complete what is done in the ring of io_uring that it has at this descriptor: with
    // IORING_SETUP_DEFER_TASKRUN nobody but the thread that has submitted it can. Empty: then nobody does.
    std::function<Result<>(const Holder&, ProgramFd)> complete;
    // Duplicates of these descriptors of the process (at most max_lent of common/agent.h), which it sends
    // itself. For where pidfd_getfd is forbidden. Empty: there it fails.
    std::function<Result<std::vector<Fd>>(const Holder&, std::span<const ProgramFd>)> borrow;
    // Has a process (kernel's id), which is to be notified of a message by a thread, ask for that anew, by
    // one of these objects, which are descriptions of that queue. Through which of these netlink sockets, of
    // which nothing waits in any, it learns of it, and what it gets there. Empty: nobody can.
    std::function<Result<RenewedNotice>(pid_t process, std::span<const std::int64_t> queue,
                                        std::span<const std::int64_t> sockets)>
        renew_notice;
    std::string cid;
    std::int32_t np = 0;
    MeetHosts meet;
    CopiedMemory* copied = nullptr;  // shared memory that was copied ahead; null: none
    const Region* region = nullptr;  // where sockets' names are; null: none have others than the kernel says
    // What passes soon is waited for (Error::passing) even if it could be left out with a note.
    bool may_wait = false;
    // The same of what a program that isn't busy does away with at once.
    bool may_wait_briefly = false;
    bool self_contained = false;  // the contents of files that are executed or mapped privately are saved
};

// One for each checkpoint. Not thread-safe.
class ObjectTable {
  public:
    explicit ObjectTable(ObjectOptions options = {});
    ObjectTable(ObjectTable&&) noexcept;
    ObjectTable& operator=(ObjectTable&&) noexcept;
    ~ObjectTable();

    // A process or zombie of the group (kernel's id): all of them, before anything else. Who is a member's
    // parent and no member is outside, and a pidfd may lead to a zombie.
    void add_member(pid_t id);

    // The namespaces of the group's own (clone(2), unshare(2)) that a process is in, in the order in which a
    // restart has to enter them. Of all processes before descriptors() of any.
    [[nodiscard]] Result<std::vector<std::int64_t>> namespaces(const Holder& holder);
    // The user namespace of the group's own that its pid namespace belongs to; -1: none.
    [[nodiscard]] Result<std::int64_t> owner_of_pids(const Holder& holder);
    // Can nobody be born into the pid namespace of its children, whose first process has ended?
    [[nodiscard]] Result<bool> nobody_is_born(const Holder& holder);
    // Mounts of proc that show one name it so: the kernel's number -> OwnPids::space.
    void name_pid_namespaces(const std::map<std::uint64_t, std::uint64_t>& names);

    // Of a process whose children are born into another time namespace than it is in itself.
    [[nodiscard]] Result<std::optional<schema::ClockLead>> clocks_of_children(const Holder& holder);
    // What the clocks of programs show that are in no time namespace of the group's own.
    [[nodiscard]] proc::ClockOffsets given_clocks() const;

    // Of a process in a mount namespace of the group's own: its folders in there. None: of any other.
    [[nodiscard]] Result<std::optional<schema::OwnMounts>> own_mounts(const Holder& holder);

    // All descriptors of a process, lowest first. A descriptor that is of a kind that can't be saved is an
    // error that names process, descriptor and kind.
    [[nodiscard]] Result<std::vector<schema::Descriptor>> descriptors(const Holder& holder);

    // What mq_notify(3) was given by this process for this queue; the kernel doesn't tell.
    void notification(const Holder& holder, std::int64_t object, std::uint64_t value);

    // The locks that a process holds, of the descriptors that descriptors() has listed; each of those that
    // belong to an open file description is named once in the group.
    [[nodiscard]] std::vector<schema::FileLock> take_locks(const Holder& holder);

    // "exe", "cwd" or "root" of /proc/PID -> object id. -1: root is the same as ours.
    [[nodiscard]] Result<std::int64_t> file(const Holder& holder, const std::string& link);

    // The file behind a mapping that is not shared memory (AreaKind::file_private, file_shared). If it has no
    // name any more, the object is of kind memory and its contents are saved.
    [[nodiscard]] Result<std::int64_t> mapped_file(const Holder& holder, const Mapping& mapping);

    // The memory behind a shared mapping without a file that has a name: MAP_SHARED|MAP_ANONYMOUS, memfd,
    // deleted file, SysV segment. To be called for each such mapping of each process: without a descriptor,
    // contents are read through the mappings.
    [[nodiscard]] Result<std::int64_t> shared_memory(const Holder& holder, const Mapping& mapping);

    // A mapping that by its path would be shared memory (/dev/shm), and is of a file system of a mount
    // namespace of the group's own: mapped_file fits it.
    [[nodiscard]] bool is_of_own_mounts(const Holder& holder, const Mapping& mapping) const;

    // Does mapped_file or shared_memory fit this mapping? (By the path that the kernel shows.)
    [[nodiscard]] static bool is_shared_memory(const Mapping& mapping);

    // Controlling terminal of a process, from /proc/PID/stat: tty_nr, session, tpgid. -1 if
    // tty_nr is 0.
    [[nodiscard]] Result<std::int64_t> terminal_of(const Holder& holder, int tty_nr, KernelId session,
                                                   KernelId tpgid);

    // System V objects that the session's programs have asked for, and segments that members have attached.
    // After all mappings are known.
    [[nodiscard]] Result<> system_v(IpcMap& map);
    // Is the process in an IPC namespace of the group's own?
    [[nodiscard]] bool is_in_own_ipc(const Holder& holder) const;

    // What only stands still now: what is in pipes and terminals, shared memory, unlinked files.
    [[nodiscard]] Result<> capture_contents(ImageWriter& writer);

    // Lets go of every duplicate: a duplicate that lives on keeps a pipe's reader waiting, a lock held, a
    // file busy. Must come before the processes go on. capture_contents() does it at its end.
    void release();

    // What may be done after the processes have gone on: hashes of files that no member has open for writing,
    // paths of watched inodes.
    [[nodiscard]] Result<> finish();

    [[nodiscard]] const schema::Object& object(std::int64_t id) const;
    [[nodiscard]] const std::deque<schema::Object>& all() const;
    // What could not be saved exactly, in words.
    [[nodiscard]] const std::vector<std::string>& notes() const;

    // The table for the objects image.
    [[nodiscard]] schema::Objects take();

  private:
    std::unique_ptr<Table> table_;
};

// What SEM_UNDO has promised, by process (kernel's id), to those in the session's IPC namespace or to those
// in one of the group's own. Who goes into another one has no promises any more (unshare(2)).
[[nodiscard]] std::multimap<pid_t, schema::SemaphoreUndo> promised_undo(const IpcMap& map, bool in_own);

}  // namespace cairn::capture
