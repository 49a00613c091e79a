// How a description of the kernel's log (/dev/kmsg) is brought to a record, by a capture and by a restart.
// What the kernel does is devkmsg_read(), devkmsg_llseek() and devkmsg_poll() of kernel/printk/printk.c, and
// the same for all of this since Linux 3.5.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>

#include "common/error.h"

namespace cairn {

enum class NextRecord {
    none,  // the end of the log
    there,
    overwritten,  // the next read fails with EPIPE, and the one behind it gives the oldest record
};

// One open description that may be read. An interface, so that a test can have a log in which records are
// overwritten at any moment.
class LogReader {
  public:
    LogReader() = default;
    LogReader(const LogReader&) = delete;
    LogReader& operator=(const LogReader&) = delete;
    virtual ~LogReader() = default;
    // Takes a record: its number, or errno. EAGAIN: there is none, also where read(2) would wait for one.
    [[nodiscard]] virtual std::expected<std::uint64_t, int> read() = 0;
    virtual void to_oldest() = 0;  // SEEK_SET
    // SEEK_DATA: behind the last `dmesg -C`, to where the log began if there was none, whether or not that
    // record was overwritten since.
    virtual void to_cleared() = 0;
    [[nodiscard]] virtual NextRecord next() = 0;
};

// The kernel's; the descriptor stays whose it is.
class KernelLog final : public LogReader {
  public:
    explicit KernelLog(int fd) : fd_(fd) {}
    [[nodiscard]] std::expected<std::uint64_t, int> read() override;
    void to_oldest() override;
    void to_cleared() override;
    [[nodiscard]] NextRecord next() override;

  private:
    int fd_;
};

// What a description was brought to.
enum class Arrival {
    there,        // what is read next is the record
    overwritten,  // the record is gone, and the next read says so (EPIPE)
    oldest,       // the record is gone; what is read next is the oldest one, and nothing tells the reader
    end,          // the log ends before the record; what is read next is what is written next
};

// In these the scout is another description, which may be left anywhere.

// Nothing if the log is empty.
[[nodiscard]] std::optional<std::uint64_t> oldest_record(LogReader& scout);
// The number that the next record will have.
[[nodiscard]] std::uint64_t end_of_log(LogReader& scout);
// Stands for whichever record a reader wanted whose next read fails with EPIPE: it is behind the oldest, for
// good.
[[nodiscard]] std::uint64_t overwritten_record(LogReader& scout);

// Others may write meanwhile, but not read by `reader`.
[[nodiscard]] Arrival go_to(LogReader& reader, LogReader& scout, std::uint64_t record);

struct FoundRecord {
    std::uint64_t next = 0;
    Arrival arrival = Arrival::there;  // where the reader is now
    int problem = 0;                   // errno; not 0: nothing was found, and the reader is where it was
};
// What `reader`, for which something is there, would read next. No call tells that but read(2), which takes
// the record: the reader is put back then.
[[nodiscard]] FoundRecord find_next(LogReader& reader, LogReader& scout);

// Of the running kernel.
[[nodiscard]] Result<std::string> boot_of_log();

}  // namespace cairn
