// The kernel's log: where its readers are. A reader at the end, as most are, isn't touched for that; of any
// other a record is taken, and the reader put back.
#include <fcntl.h>
#include <unistd.h>

#include "resources/capture/guard.h"
#include "resources/capture/table.h"
#include "resources/kmsg/schema_log.h"

namespace cairn::capture {
namespace {

// Until the reader is back where it was it would read records a second time: nobody may end it meanwhile.
Result<FoundRecord> find_guarded(LogReader& reader, LogReader& scout) {
    auto guard = TRY(Guard::begin("cairn-kmsg", [&](int to) {
        const FoundRecord told = find_next(reader, scout);
        return ::write(to, &told, sizeof told) == sizeof told;
    }));
    FoundRecord found;
    const bool whole = ::read(guard.answer(), &found, sizeof found) == sizeof found;
    if (!guard.end() || !whole) return fail("the process that read the kernel's log for it was ended");
    return found;
}

Result<std::uint64_t> next_of(Table& table, const Description& found, LogReader& reader, LogReader& scout) {
    if (reader.next() == NextRecord::none) {
        // The end has to be found first, and seen to be the reader's after that: others may write. The reader
        // itself doesn't move.
        const std::uint64_t end = end_of_log(scout);
        if (reader.next() == NextRecord::none) return end;
    }
    // To read would give us the error that the program hasn't been told of.
    if (reader.next() == NextRecord::overwritten) return overwritten_record(scout);
    const FoundRecord record = TRY(find_guarded(reader, scout));
    if (record.problem == EAGAIN) {
        auto busy = fail_code(ExitCode::refused,
                              "is read by a program outside of the computation, which has this descriptor as "
                              "well; end it before a checkpoint");
        busy.error().passing = true;
        return busy;
    }
    if (record.problem != 0) {
        errno = record.problem;
        return fail_errno("is the kernel's log, and can't be read");
    }
    if (record.arrival == Arrival::oldest || record.arrival == Arrival::end)
        table.note(
            "{} reads the kernel's log, and the record {}, which was its next, was overwritten while the "
            "checkpoint looked: it goes on {} and isn't told that records are missing (EPIPE)",
            found.who(), record.next,
            record.arrival == Arrival::oldest ? "with the oldest one that is left" : "at the end");
    return record.next;
}

}  // namespace

// /dev/kmsg: drivers/char/mem.c
bool is_kmsg(const Looked& it) {
    constexpr unsigned memory_devices = 1, log_device = 11;
    return it.opened(S_IFCHR) && it.is_device(memory_devices, log_device);
}

Result<> describe_kmsg(Table& table, const Description& found, schema::Object& object) {
    object.path = found.link;
    auto& saved = object.what.emplace<schema::Kmsg>();
    if ((found.flags & O_ACCMODE) == O_WRONLY) return {};
    const Fd other = reopen(found.fd(), O_RDONLY | O_NONBLOCK);
    if (!other && (errno == EPERM || errno == EACCES))
        return fail_code(
            ExitCode::refused,
            "reads the kernel's log, which you may not open, and so a restart couldn't either: take the "
            "checkpoint as root, allow it (sysctl kernel.dmesg_restrict=0), or close it before a checkpoint");
    if (!other) return fail_errno("is the kernel's log, and can't be opened");
    KernelLog reader(found.fd()), scout(other.get());
    saved.position = {.boot = TRY(boot_of_log()), .next = 0};
    saved.position->next = TRY(next_of(table, found, reader, scout));
    return {};
}

}  // namespace cairn::capture
