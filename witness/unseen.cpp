#include "witness/unseen.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <string>

#include "common/fd.h"
#include "witness/proc_text.h"

namespace cairn::witness {
namespace {

std::vector<Elf64_Phdr> segments_of(const std::string& path) {
    const Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    Elf64_Ehdr header{};
    if (!file || pread(file.get(), &header, sizeof header, 0) != sizeof header) return {};
    std::vector<Elf64_Phdr> segments(header.e_phnum);
    const std::size_t size = segments.size() * sizeof(Elf64_Phdr);
    if (pread(file.get(), segments.data(), size, static_cast<off_t>(header.e_phoff)) !=
        static_cast<ssize_t>(size))
        return {};
    return segments;
}

// The segment PT_TLS of a file; sizes 0 if it has none.
Elf64_Phdr thread_local_of(const std::string& path) {
    for (const Elf64_Phdr& segment : segments_of(path))
        if (segment.p_type == PT_TLS) return segment;
    return {};
}

// Where the library begins, and its file.
struct Library {
    std::uint64_t start = 0;
    std::string path;
};
Library library_in(const std::string& folder) {
    std::istringstream lines(text_of(folder + "/maps").value_or(""));
    for (std::string line; std::getline(lines, line);)
        if (const std::size_t path = line.find('/');
            path != std::string::npos && line.ends_with("/libcairn.so"))
            return {std::strtoull(line.c_str(), nullptr, 16), line.substr(path)};
    return {};
}

std::uint64_t rounded(std::uint64_t value, std::uint64_t alignment) {
    return alignment == 0 ? value : (value + alignment - 1) / alignment * alignment;
}

// Where libc puts the thread-local memory of one file after the other, below the thread pointer: as the first
// address of its segment is aligned. What is left between a block and its neighbour is given to whom it is
// enough for (_dl_determine_tlsoffset(), glibc's elf/dl-tls.c).
class ThreadLocalLayout {
  public:
    // How far below the thread pointer its block begins.
    std::uint64_t place(const Elf64_Phdr& segment) {
        const std::uint64_t alignment = std::max<std::uint64_t>(segment.p_align, 1),
                            first = (0 - segment.p_vaddr) & (alignment - 1), size = segment.p_memsz;
        if (size == 0) return 0;
        const auto behind = [&](std::uint64_t used) {
            return rounded(std::max(used + size, first) - first, alignment) + first;
        };
        if (free_to_ - free_from_ >= size)
            if (const std::uint64_t at = behind(free_from_); at <= free_to_) return free_from_ = at;
        const std::uint64_t at = behind(used_);
        if (at > used_ + size + (free_to_ - free_from_)) free_from_ = used_, free_to_ = at - size;
        return used_ = at;
    }

  private:
    std::uint64_t used_ = 0, free_from_ = 0, free_to_ = 0;
};

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

std::uint64_t stack_pointer(pid_t tid, const LibcLayout& layout) {
    const auto found = layout.stood.find(tid);
    return found == layout.stood.end() ? stack_pointer_of(tid) : found->second.stack_pointer;
}

void add_stack(std::vector<Unseen>& unseen, std::uint64_t stack_pointer) {
    // Below the stack pointer and its red zone nothing is alive: what is called later writes there (psABI,
    // section 3.2.2).
    constexpr std::uint64_t red_zone = 128, dead = 65536;
    if (stack_pointer > red_zone + dead) unseen.push_back({stack_pointer - red_zone - dead, dead});
}

void add_thread(std::vector<Unseen>& unseen, pid_t tid, const LibcLayout& layout, const ThreadLocal& cairns) {
    const auto found = layout.stood.find(tid);
    LibcLayout::Stood where;
    if (found != layout.stood.end()) where = found->second;
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
    const Library library = library_in(folder);
    if (library.path.empty()) return {};
    const Elf64_Phdr program = thread_local_of(folder + "/exe"), own = thread_local_of(library.path);
    ThreadLocalLayout layout;
    layout.place(program);
    return {layout.place(own), own.p_memsz};
}

void add_library(std::vector<Unseen>& unseen, pid_t pid) {
    const Library library = library_in("/proc/" + std::to_string(pid));
    std::uint64_t end = 0;
    for (const Elf64_Phdr& segment : segments_of(library.path))
        if (segment.p_type == PT_LOAD) end = std::max(end, segment.p_vaddr + segment.p_memsz);
    constexpr std::uint64_t page = 4096;
    if (end != 0) unseen.push_back({library.start, rounded(end, page)});
}

}  // namespace cairn::witness
