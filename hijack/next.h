// The function that a wrapper stands in front of: the next one of that name, libc's or another preloaded
// library's.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "hijack/lookup.h"
#include "hijack/timing.h"

namespace cairn::hijack {

template <std::size_t size>
struct SymbolName {
    char text[size];
    consteval SymbolName(const char (&name)[size]) {
        for (std::size_t i = 0; i < size; ++i) text[i] = name[i];
    }
};

// A libc function, called from a wrapper: while it runs, the thread's note says where, so that a capture can
// tell a thread that may hold an id of the kernel's from one that has nothing to do with us
// (capture/translation.h). The arguments are ready by then, and the answer hasn't been looked at; in between
// the thread is in our code.
template <class Function>
class Next {
  public:
    explicit Next(Function* function) : function_(function) {}

    template <class... Arguments>
    auto operator()(Arguments... arguments) const {
        const Mark mark;
        return function_(arguments...);
    }
    [[nodiscard]] bool exists() const { return function_ != nullptr; }

  private:
    // Put back as it was: a signal handler may have interrupted another wrapper.
    class Mark {
      public:
        Mark() : before_(timing_note.call_frame) {
            timing_note.call_frame = static_cast<std::uint32_t>(
                reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)) & 0xffffffffU);
            std::atomic_signal_fence(std::memory_order_seq_cst);
        }
        Mark(const Mark&) = delete;
        Mark& operator=(const Mark&) = delete;
        ~Mark() {
            std::atomic_signal_fence(std::memory_order_seq_cst);
            timing_note.call_frame = before_;
        }

      private:
        std::uint32_t before_;
    };
    Function* function_;
};

// Looked up at the first use and kept; a signal handler may come here. One that doesn't exist in this libc (a
// newer libc's name) must not be called.
template <SymbolName name, class Function>
inline Next<Function> next(Function* /*only its type*/) {
    static constinit std::atomic<void*> found = nullptr;
    void* function = found.load(std::memory_order_relaxed);
    if (function == nullptr) {
        function = find_behind_us(name.text);
        found.store(function, std::memory_order_relaxed);
    }
    return Next<Function>(reinterpret_cast<Function*>(function));
}

}  // namespace cairn::hijack

// A libc function that programs get from us.
#define CAIRN_EXPORT extern "C" __attribute__((visibility("default")))
