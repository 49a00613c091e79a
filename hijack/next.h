// The function that a wrapper stands in front of: the next one of that name, libc's or another preloaded
// library's.
#pragma once

#include <dlfcn.h>

#include <atomic>
#include <cstddef>

namespace cairn::hijack {

template <std::size_t size>
struct SymbolName {
    char text[size];
    consteval SymbolName(const char (&name)[size]) {
        for (std::size_t i = 0; i < size; ++i) text[i] = name[i];
    }
};

// Looked up at the first use and kept. dlsym allocates only when it fails; its lock is recursive, so a signal
// handler may come here. Null if this libc has no such function (a newer libc's name).
template <SymbolName name, class Function>
inline Function* next(Function* /*only its type*/) {
    static constinit std::atomic<void*> found = nullptr;
    void* function = found.load(std::memory_order_relaxed);
    if (function == nullptr) {
        function = ::dlsym(RTLD_NEXT, name.text);
        found.store(function, std::memory_order_relaxed);
    }
    return reinterpret_cast<Function*>(function);
}

}  // namespace cairn::hijack

// A libc function that programs get from us.
#define CAIRN_EXPORT extern "C" __attribute__((visibility("default")))
