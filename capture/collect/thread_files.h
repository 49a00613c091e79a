// What anybody may ask about threads that stand still: files of /proc, and some system calls. Of thousands of
// threads that costs as much as everything that their tracer has to ask, which is one thread of ours: the
// other processors do it meanwhile.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "capture/group.h"
#include "common/helper_threads.h"

namespace cairn::capture {

// What is the same work before the stop as in it is done before, for processes of many threads. The kernel
// makes what it needs to know of a file in /proc when somebody first looks at that file, which takes as long
// as reading it: all of them are looked at. And the memory for what they will tell is made present: once for
// each page the processor goes into the kernel for that.
void prepare_for_threads(const std::vector<pid_t>& processes);

class ThreadFiles {
  public:
    // Helpers begin to ask about all threads of these processes, which stand still and outlive it. Nothing of
    // them is changed but StoppedThread::asked.
    explicit ThreadFiles(std::map<pid_t, StoppedProcess>& processes);
    // What nobody has begun to ask by now isn't asked any more.
    ~ThreadFiles() { ended_ = true; }
    ThreadFiles(const ThreadFiles&) = delete;
    ThreadFiles& operator=(const ThreadFiles&) = delete;

    // Behind it StoppedThread::asked is there for each thread of the process that lives: the caller asks what
    // no helper has begun to ask, and waits for the rest.
    [[nodiscard]] Result<> ask(const StoppedProcess& process);

    // Refused: a thread that is in other namespaces than its process. Needs ask(), and has to come before
    // they go on: the later the less there is left to wait for.
    [[nodiscard]] Result<> refuse_other_namespaces();

  private:
    // A part of the work that whoever comes first does, and the others may wait for.
    class Part {
      public:
        template <class Work>
        void unless_begun(const Work& work) {
            if (begun_.test_and_set(std::memory_order_acquire)) return;
            work();
            done_.store(true, std::memory_order_release);
            done_.notify_all();
        }
        void wait() const { done_.wait(false, std::memory_order_acquire); }

      private:
        std::atomic_flag begun_;
        std::atomic<bool> done_ = false;
    };
    // What a thread may have of its own (of_threads in the implementation), by number. 0: the kernel has none
    // of this name, or the thread has ended.
    struct Namespaces {
        std::array<std::uint64_t, 5> alone = {};
        std::uint64_t time_of_children = 0;
    };
    struct Each {
        const StoppedProcess* process = nullptr;
        StoppedThread* thread = nullptr;
        Part asking, looking;
        std::optional<Error> failed;
        Namespaces namespaces;
    };

    static void ask(Each& one);
    static void look(Each& one);
    static bool has_siblings(const Each& one);
    static Result<> refuse_namespaces(const Each& one, const Namespaces& first, std::uint64_t time);
    void help();

    std::vector<Each> all_;                                        // those of a process side by side
    std::map<pid_t, std::pair<std::size_t, std::size_t>> places_;  // process -> from, up to
    std::atomic<bool> ended_ = false;
    std::function<void()> help_ = [this] { help(); };
    HelperThreads helpers_;
};

}  // namespace cairn::capture
