#include "restart/terminal/redraw.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <thread>

#include "common/proc.h"

namespace cairn::restart {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t window_changed = 1ULL << (SIGWINCH - 1);

// A mask of /proc/PID/status; 0 if it can't be read.
std::uint64_t mask_of(pid_t pid, const char* name) {
    const auto status = proc::status(pid, pid);
    return status ? proc::hexadecimal((*status)[name]) : 0;
}

// To others the signal may mean something else: Apache's server ends of it, gracefully.
bool is_for_a_screen(const Fd& terminal) {
    termios settings{};
    return ::tcgetattr(terminal.get(), &settings) == 0 && (settings.c_lflag & ICANON) == 0;
}

// script(1) and others that stand between two terminals block the signal, and read it (signalfd(2)).
bool reads_it(pid_t pid) {
    // The process may end meanwhile, and the folder with it.
    std::error_code problem;
    std::filesystem::directory_iterator entry(fmt::format("/proc/{}/fdinfo", pid), problem);
    for (; !problem && entry != std::filesystem::directory_iterator(); entry.increment(problem)) {
        std::ifstream file(entry->path());
        for (std::string word; file >> word;)
            if (word == "sigmask:" && file >> word && (proc::hexadecimal(word) & window_changed) != 0)
                return true;
    }
    return false;
}

bool draws(pid_t pid) {
    if ((mask_of(pid, "SigCgt") & window_changed) != 0) return true;
    return (mask_of(pid, "SigBlk") & window_changed) != 0 && reads_it(pid);
}

// The signal has reached it, and it waits for something again.
bool has_drawn(pid_t pid) {
    const auto stat = proc::stat(pid);
    if (!stat || stat->state != 'S') return !stat || stat->state == 'T' || stat->state == 'Z';
    return ((mask_of(pid, "ShdPnd") | mask_of(pid, "SigPnd")) & window_changed) == 0;
}

// A program that has got the signal and sleeps may still have been sleeping before; so it is seen so several
// times. Whoever is busy draws when he comes to it, with the size that the terminal has by then.
void wait_until_drawn(const std::vector<pid_t>& programs) {
    constexpr auto step = 10ms;
    constexpr int enough = 5, most = 30;
    int quiet = 0;
    for (int tries = 0; tries < most && quiet < enough; ++tries) {
        std::this_thread::sleep_for(step);
        quiet = std::ranges::all_of(programs, has_drawn) ? quiet + 1 : 0;
    }
}

}  // namespace

void draw_again(const Fd& terminal, std::vector<pid_t> group) {
    if (!terminal || !is_for_a_screen(terminal)) return;
    std::erase_if(group, [](pid_t pid) { return !draws(pid); });
    winsize size{};
    if (group.empty() || ::ioctl(terminal.get(), TIOCGWINSZ, &size) != 0 || size.ws_row == 0) return;
    winsize other = size;
    other.ws_row = static_cast<unsigned short>(size.ws_row > 1 ? size.ws_row - 1 : size.ws_row + 1);
    if (::ioctl(terminal.get(), TIOCSWINSZ, &other) != 0) return;
    wait_until_drawn(group);
    winsize now{};
    // Somebody may have changed it himself meanwhile.
    if (::ioctl(terminal.get(), TIOCGWINSZ, &now) == 0 && now.ws_row == other.ws_row &&
        now.ws_col == other.ws_col)
        ::ioctl(terminal.get(), TIOCSWINSZ, &size);
}

}  // namespace cairn::restart
