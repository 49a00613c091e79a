#include "resources/memory/capture_huge.h"

#include <fcntl.h>
#include <linux/memfd.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <set>

#include "common/image/format.h"
#include "common/proc.h"

namespace cairn::capture {
namespace {

constexpr std::uint64_t piece_size = image_max_run;

// linux/Documentation/admin-guide/mm/pagemap.rst
constexpr std::uint64_t entry_present = 1ULL << 63, entry_file = 1ULL << 61;

// Whether a page of shared memory is there is told by userfaultfd(2) (since Linux 5.13, to everybody): it
// maps a page into our tables that is there (UFFDIO_CONTINUE), and makes none.
class Presence {
  public:
    Presence(std::uint64_t start, std::uint64_t length) {
        constexpr int user_mode_only = 1;
        constexpr std::uint64_t minor_faults = 1 << 9;  // UFFD_FEATURE_MINOR_HUGETLBFS
        Fd fault(static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC | user_mode_only)));
        uffdio_api api = {UFFD_API, minor_faults, 0};
        uffdio_register watch = {{start, length}, std::uint64_t{1} << 2, 0};  // UFFDIO_REGISTER_MODE_MINOR
        if (fault && ::ioctl(fault.get(), UFFDIO_API, &api) == 0 &&
            ::ioctl(fault.get(), UFFDIO_REGISTER, &watch) == 0)
            fault_ = std::move(fault);
    }

    // True where it can't be told.
    [[nodiscard]] bool of(std::uint64_t at, std::uint64_t page_size) const {
        struct {
            uffdio_range range;
            std::uint64_t mode;
            std::int64_t mapped;
        } request = {{at, page_size}, 0, 0};
        constexpr unsigned long continue_fault = _IOWR(UFFDIO, 0x07, decltype(request));
        if (!fault_) return true;
        while (::ioctl(fault_.get(), continue_fault, &request) != 0)
            if (errno != EAGAIN) return errno == EEXIST;
        return true;
    }

  private:
    Fd fault_;
};

// False: it can't be had. By a call that fails where a look would be SIGBUS.
bool copy_own(std::uint64_t at, std::span<std::uint8_t> to) {
    const iovec here = {to.data(), to.size()}, there = {reinterpret_cast<void*>(at), to.size()};
    return ::process_vm_readv(::getpid(), &here, 1, &there, 1, 0) == static_cast<ssize_t>(to.size());
}

// The pages of one mapping.
class HugeReader {
  public:
    static Result<HugeReader> open(const Holder& holder, const Mapping& mapping) {
        HugeReader reader;
        const std::string folder = proc_folder(holder);
        reader.memory_.reset(::open((folder + "mem").c_str(), O_RDONLY | O_CLOEXEC));
        reader.pagemap_.reset(::open((folder + "pagemap").c_str(), O_RDONLY | O_CLOEXEC));
        if (!reader.memory_ || !reader.pagemap_)
            return fail_errno("{}: memory can't be read", name_of(holder));
        reader.shared_ = mapping.shared;
        return reader;
    }

    enum class State { there, untouched, own };  // own: of a private mapping, no longer the object's
    [[nodiscard]] State state(ProgramAddress at) const {
        std::uint64_t entry = 0;
        const auto offset = static_cast<off_t>(at.value() / image_page * sizeof entry);
        if (::pread(pagemap_.get(), &entry, sizeof entry, offset) != sizeof entry ||
            (entry & entry_present) == 0)
            return State::untouched;
        return shared_ || (entry & entry_file) != 0 ? State::there : State::own;
    }

    [[nodiscard]] bool read(ProgramAddress at, std::span<std::uint8_t> to) const {
        return ::pread(memory_.get(), to.data(), to.size(), static_cast<off_t>(at.value())) ==
               static_cast<ssize_t>(to.size());
    }

  private:
    Fd memory_, pagemap_;
    bool shared_ = false;
};

class HugeMappings {
  public:
    HugeMappings(const Memory& memory, const Put& put) : memory_(memory), put_(put) {}

    // What is in somebody's page tables. Then, if `all`, what isn't; nothing is read twice.
    Result<> read(bool all, const std::function<void(const Holder&)>& untouched) {
        for (const auto& [holder, mapping] : memory_.mappings) {
            const auto reader = TRY(HugeReader::open(holder, mapping));
            const auto page_size = mapping.huge_page;
            bool told = false;
            for (auto at = mapping.start; at < mapping.end; at += page_size) {
                const auto offset = mapping.offset + (at - mapping.start);
                size_ = std::max(size_, offset + page_size);
                if (done_.contains(offset)) continue;
                const auto state = reader.state(at);
                if (state == HugeReader::State::own) continue;
                if (state == HugeReader::State::untouched) {
                    if (!all) continue;
                    if (!mapping.shared && !told) untouched(holder);
                    told = told || !mapping.shared;
                    if (!mapping.shared) continue;
                }
                CHECK_OK(copy(reader, at, offset, page_size));
            }
        }
        return {};
    }

    [[nodiscard]] std::uint64_t size() const { return size_; }

  private:
    Result<> copy(const HugeReader& reader, ProgramAddress at, std::uint64_t offset,
                  std::uint64_t page_size) {
        for (std::uint64_t done = 0; done < page_size; done += piece_.size()) {
            piece_.resize(std::min(page_size, piece_size));
            if (!reader.read(at + done, piece_)) return {};  // beyond the end, or a hole that stays one
            CHECK_OK(put_(offset + done, piece_));
        }
        done_.insert(offset);
        return {};
    }

    const Memory& memory_;
    const Put& put_;
    std::set<std::uint64_t> done_;
    std::vector<std::uint8_t> piece_;
    std::uint64_t size_ = 0;
};

}  // namespace

std::uint64_t huge_page_at(const void* at) {
    const ProgramAddress begin(reinterpret_cast<std::uint64_t>(at));
    const auto lines = proc::maps(::getpid(), true).value_or(std::vector<proc::MapLine>{});
    const auto line = std::ranges::find(lines, begin, &proc::MapLine::start);
    return line != lines.end() && line->flags.find(" ht") != std::string::npos ? line->page_size : 0;
}

std::int32_t huge_memfd_flags(std::uint64_t page_size) {
    return static_cast<std::int32_t>(MFD_HUGETLB | static_cast<unsigned>(std::countr_zero(page_size))
                                                       << MFD_HUGE_SHIFT);
}

Result<> read_huge_attached(const void* at, std::uint64_t size, std::uint64_t page_size, const Put& put) {
    const auto start = reinterpret_cast<std::uint64_t>(at);
    const Presence presence(start, (size + page_size - 1) / page_size * page_size);
    std::vector<std::uint8_t> piece;
    for (std::uint64_t offset = 0; offset < size; offset += page_size) {
        if (!presence.of(start + offset, page_size)) continue;
        const auto end = std::min(size, offset + page_size);
        for (std::uint64_t begin = offset; begin < end; begin += piece.size()) {
            piece.resize(std::min(end - begin, piece_size));
            if (!copy_own(start + begin, piece)) break;
            CHECK_OK(put(begin, piece));
        }
    }
    return {};
}

Result<std::uint64_t> read_huge_mappings(const Memory& memory, const Put& put,
                                         const std::function<void(const Holder&)>& untouched) {
    HugeMappings mappings(memory, put);
    CHECK_OK(mappings.read(false, untouched));
    CHECK_OK(mappings.read(true, untouched));
    return mappings.size();
}

}  // namespace cairn::capture
