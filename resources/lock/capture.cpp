// Locks: fdinfo has a line for each that was made by way of the descriptor (fs/locks.c, show_fd_locks; since
// Linux 4.2), of the process's own or of the open file description.
#include <fcntl.h>

#include <charconv>
#include <sstream>

#include "resources/capture/table.h"

namespace cairn::capture {
namespace {

struct LocksFound {
    std::map<pid_t, std::vector<schema::FileLock>> all;  // by process, kernel's id
    std::set<Inode> leased;                              // opening one of these would break a lease
};

// "1: POSIX  ADVISORY  WRITE 123 08:01:456 0 EOF"
struct Line {
    std::string kind, state, type, start, end;
};

std::vector<Line> lock_lines(std::string_view info) {
    std::vector<Line> lines;
    constexpr std::string_view key = "lock:\t";
    for (std::size_t at = 0; (at = info.find(key, at)) != std::string_view::npos;) {
        const std::size_t end = std::min(info.find('\n', at), info.size());
        std::istringstream words{std::string(info.substr(at + key.size(), end - at - key.size()))};
        at = end;
        Line line;
        std::string skipped;
        if (words >> skipped >> line.kind >> line.state >> line.type >> skipped >> skipped >> line.start >>
            line.end)
            lines.push_back(std::move(line));
    }
    return lines;
}

std::int64_t number(const std::string& text) {
    std::int64_t value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
}

// The kernel tells what such a lease has to become, and no longer what it is (target_leasetype, fs/locks.c).
// A lease for writing may become one for reading; no lease for reading is to be had by way of a descriptor
// that may write.
void set_breaking(const Description& found, const Line& line, schema::FileLock& lock) {
    lock.breaking = line.type == "READ" ? F_RDLCK : F_UNLCK;
    const bool read_only = (found.flags & O_ACCMODE) == O_RDONLY;
    lock.type = lock.breaking == F_UNLCK && read_only ? F_RDLCK : F_WRLCK;
}

}  // namespace

Locks locks_of(const Description& found) {
    Locks locks;
    for (const Line& line : lock_lines(found.info)) {
        schema::FileLock lock;
        lock.fd = found.number;
        lock.type = line.type == "WRITE" ? F_WRLCK : F_RDLCK;
        if (line.kind == "POSIX")
            lock.kind = schema::LockKind::posix;
        else if (line.kind == "OFDLCK")
            lock.kind = schema::LockKind::description;
        else if (line.kind == "FLOCK")
            lock.kind = schema::LockKind::flock;
        else if (line.kind == "LEASE")
            lock.kind = schema::LockKind::lease;
        else
            continue;  // delegations are the NFS server's
        if (lock.kind == schema::LockKind::lease && line.state == "BREAKING") set_breaking(found, line, lock);
        const bool region = line.kind == "POSIX" || line.kind == "OFDLCK";
        lock.start = region ? number(line.start) : 0;
        lock.length = region && line.end != "EOF" ? number(line.end) - lock.start + 1 : 0;
        locks.push_back(lock);
    }
    return locks;
}

void add_locks(Table& table, pid_t holder, const Locks& found, bool new_in_group) {
    auto& locks = table.of<LocksFound>().all[holder];
    for (const schema::FileLock& lock : found)
        if (lock.kind == schema::LockKind::posix || new_in_group) locks.push_back(lock);
}

std::vector<schema::FileLock> ObjectTable::take_locks(const Holder& holder) {
    return std::exchange(table_->of<LocksFound>().all[holder.pid], {});
}

bool has_lease(const Table& table, Inode inode) {
    return table.of<LocksFound>().leased.contains(inode);
}

void note_leases(Table& table, const Description& found) {
    for (const Line& line : lock_lines(found.info))
        if (line.kind == "LEASE") table.of<LocksFound>().leased.insert(inode_of(found.status));
}

}  // namespace cairn::capture
