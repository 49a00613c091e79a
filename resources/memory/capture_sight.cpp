#include "resources/memory/capture_sight.h"

#include <linux/magic.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/vfs.h>

#include "common/image/format.h"
#include "common/image/page_hashes.h"

namespace cairn::capture {
namespace {

thread_local sigjmp_buf way_back;
thread_local volatile sig_atomic_t is_looking = 0;

void leave_or_die(int signal) {
    if (is_looking != 0) siglongjmp(way_back, 1);
    ::signal(signal, SIG_DFL);  // it comes once more
}

void catch_cuts() {
    static const bool caught = [] {
        struct sigaction action {};
        action.sa_handler = leave_or_die;
        action.sa_flags = SA_NODEFER;
        return ::sigaction(SIGBUS, &action, nullptr) == 0;
    }();
    (void)caught;
}

}  // namespace

std::unique_ptr<Sight> Sight::of(int fd, std::uint64_t bytes) {
    // A mapping of huge pages would set pages of the machine's pool aside for its holes.
    struct statfs system {};
    if (bytes == 0 || ::fstatfs(fd, &system) != 0 || system.f_type == HUGETLBFS_MAGIC) return nullptr;
    catch_cuts();
    void* const at = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) return nullptr;
    return std::unique_ptr<Sight>(new Sight(static_cast<const std::uint8_t*>(at), bytes));
}

Sight::~Sight() {
    ::munmap(const_cast<std::uint8_t*>(at_), bytes_);
}

// No object with a destructor lives between the two: what a jump leaves behind is nothing.
bool Sight::hashes(std::uint64_t offset, std::span<std::uint64_t> to) const {
    if (bytes_ < to.size() * image_page || bytes_ - to.size() * image_page < offset) return false;
    const std::uint8_t* const from = at_ + offset;
    const std::size_t count = to.size();
    if (sigsetjmp(way_back, 0) != 0) {
        is_looking = 0;
        return false;
    }
    is_looking = 1;
    for (std::size_t i = 0; i < count; ++i) to[i] = page_hash({from + i * image_page, image_page});
    is_looking = 0;
    return true;
}

}  // namespace cairn::capture
