#include "restart/pages/bringer.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "common/image/format.h"
#include "restart/pages/user_fault.h"

namespace cairn::restart::pages {
namespace {

// What can't be put in place with a reason that leaves the program whole is passed over.
Done place(int fd, ProgramAddress to, const std::uint8_t* from, std::uint64_t length, Brought& brought) {
    while (length > 0) {
        uffdio_copy request = {to.value(), reinterpret_cast<std::uint64_t>(from), length, 0, 0};
        const int why = ::ioctl(fd, UFFDIO_COPY, &request) == 0 ? 0 : errno;
        std::uint64_t passed = request.copy > 0 ? static_cast<std::uint64_t>(request.copy) : 0;
        if (passed == 0 && why == EEXIST) {  // the program's own, since it was dropped
            passed = page;
            wake(fd, to, page);
        } else if (passed == 0 && why == ENOENT) {  // MADV_DONTFORK: a child hasn't got it
            while (passed < length && probe(fd, to + passed) == Probe::not_registered) passed += page;
            if (passed == 0) return Done::later;
            wake(fd, to, passed);
        } else if (passed == 0 && why == ESRCH) {
            return Done::gone;
        } else if (passed == 0 && (why == EAGAIN || why == EINTR)) {
            return Done::later;
        } else if (passed == 0 && why == ENOMEM) {
            ::usleep(1000);  // the kernel makes room, or ends somebody
            return Done::later;
        } else if (passed == 0) {
            brought.problem = fmt::format("pages can't be put in place: {}", std::strerror(why));
            return Done::later;
        }
        brought.placed.push_back({to, to + passed});
        to += passed;
        from += passed;
        length -= passed;
    }
    return Done::yes;
}

}  // namespace

Bringer::Bringer() : buffer_(image_max_run) {}

Brought Bringer::bring(const Order& order) {
    Brought brought;
    if (auto loaded = load(*order.served, order.piece.run); !loaded) {
        brought.problem = loaded.error().what;
        return brought;
    }
    const auto* data = buffer_.data() + order.piece.skip;
    const auto place_part = [&](ProgramAddress from, ProgramAddress end) {
        if (brought.done == Done::yes)
            brought.done = place(order.fd, from, data + (from - order.start), end - from, brought);
    };
    place_part(order.first, order.first + page);
    if (order.alone) return brought;
    place_part(order.start, order.first);
    place_part(order.first + page, order.piece.end);
    return brought;
}

Result<> Bringer::load(const Served& process, std::uint32_t index) {
    if (loaded_ == &process && loaded_run_ == index) return {};
    loaded_ = nullptr;
    const auto& run = process.runs[index];
    if (reader_of_ != &process.images[run.image]) {
        reader_of_ = &process.images[run.image];
        reader_.emplace(*reader_of_);
    }
    const schema::PageRun wanted{ProgramAddress(run.address), run.length, run.offset, run.hash};
    CHECK_OK(reader_->read_run(wanted, buffer_));
    loaded_ = &process;
    loaded_run_ = index;
    return {};
}

}  // namespace cairn::restart::pages
