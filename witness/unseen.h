// Parts of a process's memory that aren't compared, because they belong to the kernel or to cairn: no program
// reads them for their meaning.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <vector>

namespace cairn::witness {

struct Unseen {
    std::uint64_t start = 0, size = 0;  // bytes in the process
};

// How far below a thread's pointer (fs_base) the thread-local variables of libcairn.so begin, and how many
// bytes they are; 0 bytes if it isn't there. It is preloaded, so its variables come behind the program's own
// (the ELF handling of thread-local storage, U. Drepper, section 3, variant II).
struct ThreadLocal {
    std::uint64_t below = 0, size = 0;
};
[[nodiscard]] ThreadLocal cairns_thread_local(pid_t pid);

// libcairn.so's own memory, its data that begins as zeros included; nothing if it isn't there.
void add_library(std::vector<Unseen>& unseen, pid_t pid);

// What is known of threads that could be stopped, and by it of the others: how far from a thread's pointer
// libc has its robust list (get_robust_list(2)) and its area of rseq(2).
struct LibcLayout {
    struct Stood {
        std::uint64_t thread_pointer = 0, stack_pointer = 0;
    };
    std::map<pid_t, Stood> stood;
    std::int64_t robust_list = 0, rseq = 0;
    bool known = false, has_rseq = false;

    void learn(pid_t tid, const Stood& where, std::uint64_t rseq_area);
};

// Of one thread: the processor's number in its area of rseq(2), and cairn's own variables.
void add_thread(std::vector<Unseen>& unseen, pid_t tid, const LibcLayout& layout, const ThreadLocal& cairns);

// Where its stack ends just now; 0 if it isn't known.
[[nodiscard]] std::uint64_t stack_pointer(pid_t tid, const LibcLayout& layout);
// What is dead below that.
void add_stack(std::vector<Unseen>& unseen, std::uint64_t stack_pointer);

}  // namespace cairn::witness
