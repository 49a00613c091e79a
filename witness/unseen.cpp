#include "witness/unseen.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <sstream>
#include <string>

#include "common/fd.h"
#include "witness/proc_text.h"

namespace cairn::witness {
namespace {

// The segment PT_TLS of a file; sizes 0 if it has none.
Elf64_Phdr thread_local_of(const std::string& path) {
    const Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    Elf64_Ehdr header{};
    if (!file || pread(file.get(), &header, sizeof header, 0) != sizeof header) return {};
    for (Elf64_Half number = 0; number < header.e_phnum; ++number) {
        Elf64_Phdr segment{};
        if (pread(file.get(), &segment, sizeof segment,
                  static_cast<off_t>(header.e_phoff + number * sizeof segment)) != sizeof segment)
            return {};
        if (segment.p_type == PT_TLS) return segment;
    }
    return {};
}

std::uint64_t rounded(std::uint64_t value, std::uint64_t alignment) {
    return alignment == 0 ? value : (value + alignment - 1) / alignment * alignment;
}

// 0: none.
std::uint64_t robust_list_of(pid_t tid) {
    void* head = nullptr;
    std::size_t size = 0;
    return syscall(SYS_get_robust_list, tid, &head, &size) == 0 ? reinterpret_cast<std::uint64_t>(head) : 0;
}

// Of a thread that waits in a call; 0 if it doesn't: the last but one of the words of /proc/TID/syscall.
std::uint64_t stack_pointer_of(pid_t tid) {
    std::istringstream text(text_of("/proc/" + std::to_string(tid) + "/syscall").value_or(""));
    std::vector<std::string> words;
    for (std::string word; text >> word;) words.push_back(word);
    return words.size() < 3 ? 0 : std::strtoull(words[words.size() - 2].c_str(), nullptr, 16);
}

}  // namespace

void LibcLayout::learn(pid_t tid, const Stood& where, std::uint64_t rseq_area) {
    stood[tid] = where;
    const std::uint64_t list = robust_list_of(tid);
    if (known || list == 0) return;
    known = true;
    has_rseq = rseq_area != 0;
    robust_list = static_cast<std::int64_t>(list - where.thread_pointer);
    rseq = static_cast<std::int64_t>(rseq_area - where.thread_pointer);
}

void add_thread(std::vector<Unseen>& unseen, pid_t tid, const LibcLayout& layout, const ThreadLocal& cairns) {
    const auto found = layout.stood.find(tid);
    LibcLayout::Stood where{0, stack_pointer_of(tid)};
    if (found != layout.stood.end()) where = found->second;
    // Below the stack pointer and its red zone nothing is alive: what is called later writes there (psABI,
    // section 3.2.2).
    constexpr std::uint64_t red_zone = 128, dead = 65536;
    if (where.stack_pointer > red_zone + dead)
        unseen.push_back({where.stack_pointer - red_zone - dead, dead});
    if (const std::uint64_t list = robust_list_of(tid);
        where.thread_pointer == 0 && layout.known && list != 0)
        where.thread_pointer = list - static_cast<std::uint64_t>(layout.robust_list);
    const std::uint64_t thread_pointer = where.thread_pointer;
    if (thread_pointer == 0) return;
    if (cairns.size != 0) unseen.push_back({thread_pointer - cairns.below, cairns.size});
    if (!layout.has_rseq) return;
    // struct rseq of <linux/rseq.h>: cpu_id_start and cpu_id, then a pointer and flags, then node_id and
    // mm_cid.
    const std::uint64_t area = thread_pointer + static_cast<std::uint64_t>(layout.rseq);
    unseen.push_back({area, 8});
    unseen.push_back({area + 20, 8});
}

ThreadLocal cairns_thread_local(pid_t pid) {
    const std::string folder = "/proc/" + std::to_string(pid);
    std::istringstream lines(text_of(folder + "/maps").value_or(""));
    for (std::string line; std::getline(lines, line);) {
        const std::size_t path = line.find('/');
        if (path == std::string::npos || !line.ends_with("/libcairn.so")) continue;
        const Elf64_Phdr program = thread_local_of(folder + "/exe"),
                         library = thread_local_of(line.substr(path));
        const std::uint64_t above = rounded(program.p_memsz, program.p_align);
        return {rounded(above + library.p_memsz, library.p_align), library.p_memsz};
    }
    return {};
}

}  // namespace cairn::witness
