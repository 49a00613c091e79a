// cairn-top: a session on one page, renewed each second.
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <cstdio>
#include <exception>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/top/feed.h"
#include "cli/top/page.h"
#include "cli/top/screen.h"
#include "common/fd.h"
#include "common/json_text.h"

namespace {

using namespace cairn;
namespace po = boost::program_options;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds between_looks{1};
constexpr std::chrono::seconds message_stays{8};
// Between two looks for a single page: what a processor did meanwhile is its share.
constexpr std::chrono::milliseconds short_look{250};

// Signals are read between two pages: the terminal is given back before anything else happens.
class Signals {
  public:
    Signals() {
        ::sigemptyset(&set_);
        for (const int number : {SIGWINCH, SIGINT, SIGTERM, SIGHUP, SIGTSTP, SIGCONT})
            ::sigaddset(&set_, number);
        ::sigprocmask(SIG_BLOCK, &set_, nullptr);
        fd_.reset(::signalfd(-1, &set_, SFD_CLOEXEC | SFD_NONBLOCK));
    }
    [[nodiscard]] int fd() const { return fd_.get(); }
    [[nodiscard]] int next() const {
        signalfd_siginfo info{};
        return ::read(fd_.get(), &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo) : 0;
    }

  private:
    sigset_t set_{};
    Fd fd_;
};

class Page {
  public:
    explicit Page(top::Feed& feed) : feed_(feed) {}

    Result<> run() {
        // Nobody to ask is said where it can be read afterwards.
        CHECK_OK(feed_.refresh(sample_, true));
        top::Screen screen;
        Clock::time_point looked = Clock::now();
        top::Screen::measure(view_);
        bool fine = show(screen, true);
        while (fine && !done_) {
            wait(looked + between_looks);
            bool anew = false;
            for (int number = 0; (number = signals_.next()) != 0;) anew = handle(number, screen) || anew;
            std::vector<top::Key> keys;
            fine = screen.read_keys(keys);
            bool again = false;
            for (const auto key : keys) again = handle(key) || again;
            bool changed = feed_.take_events(sample_) || anew || !keys.empty();
            if (again || Clock::now() >= looked + between_looks) {
                CHECK_OK(feed_.refresh(sample_, false));
                looked = Clock::now();
                changed = true;
            }
            changed = take_news() || changed;
            if (changed && fine && !done_) fine = show(screen, anew);
        }
        return {};
    }

  private:
    void wait(Clock::time_point until) const {
        std::vector<pollfd> waited{{STDIN_FILENO, POLLIN, 0}, {signals_.fd(), POLLIN, 0}};
        for (const int fd : feed_.descriptors()) waited.push_back({fd, POLLIN, 0});
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
        ::poll(waited.data(), waited.size(), static_cast<int>(std::max<std::int64_t>(left, 0)));
    }

    bool show(top::Screen& screen, bool anew) { return screen.draw(top::page(sample_, view_), anew); }

    // True: all is to be drawn anew.
    bool handle(int signal, top::Screen& screen) {
        switch (signal) {
            case SIGWINCH:
                top::Screen::measure(view_);
                return true;
            case SIGTSTP:
                screen.leave();
                ::raise(SIGSTOP);
                screen.enter();
                top::Screen::measure(view_);
                return true;
            case SIGCONT:
                return true;
            default:
                done_ = true;
                return false;
        }
    }

    // True: it is to be looked at again at once.
    bool handle(top::Key key) {
        const std::size_t screenful = view_.rows / 2;
        switch (key) {
            case top::Key::quit:
                done_ = true;
                return false;
            case top::Key::help:
                view_.help = !view_.help;
                return false;
            case top::Key::sort:
                view_.sort = next_after(view_.sort);
                return false;
            case top::Key::checkpoint:
                feed_.ask_checkpoint();
                return false;
            case top::Key::again:
                return true;
            case top::Key::up:
                view_.scrolled -= std::min<std::size_t>(view_.scrolled, 1);
                return false;
            case top::Key::down:
                ++view_.scrolled;
                return false;
            case top::Key::page_up:
                view_.scrolled -= std::min(view_.scrolled, screenful);
                return false;
            case top::Key::page_down:
                view_.scrolled += screenful;
                return false;
            case top::Key::home:
                view_.scrolled = 0;
                return false;
            case top::Key::end:
                view_.scrolled = sample_.processes.size();
                return false;
            case top::Key::none:
                return false;
        }
        return false;
    }

    bool take_news() {
        const auto news = feed_.take_news();
        if (news) {
            view_.message = news->text;
            view_.message_is_bad = news->bad;
            message_until_ = Clock::now() + message_stays;
        } else if (!view_.message.empty() && Clock::now() > message_until_) {
            view_.message.clear();
            return true;
        }
        return news.has_value();
    }

    top::Feed& feed_;
    Signals signals_;
    top::Sample sample_;
    top::View view_;
    Clock::time_point message_until_{};
    bool done_ = false;
};

Result<> print_once(top::Feed& feed, bool json) {
    top::Sample sample;
    CHECK_OK(feed.refresh(sample, true));
    std::this_thread::sleep_for(short_look);
    CHECK_OK(feed.refresh(sample, true));
    if (json) {
        fmt::print("{}\n", json_text(as_json(sample), 2));
    } else {
        top::View view{.whole = true};
        for (const auto& line : top::page(sample, view)) fmt::print("{}\n", line.text);
    }
    if (std::fflush(stdout) != 0) return fail_errno("writing to stdout");
    return {};
}

Result<> run(const po::variables_map& given) {
    const auto session = find_session(session_name(given["session"].as<std::string>()));
    if (!session) return fail("{}", session.error());
    top::Feed feed(*session);
    const bool json = given["json"].as<bool>();
    if (json || given["once"].as<bool>() || !top::Screen::possible()) return print_once(feed, json);
    return Page(feed).run();
}

int complain(const Error& error) {
    fmt::print(stderr, "cairn: {}\n", printable(error.what));
    return static_cast<int>(error.code);
}

}  // namespace

int main(int argc, char** argv) {
    po::options_description known;
    known.add_options()("session,s", po::value<std::string>()->default_value(""))("once", po::bool_switch())(
        "json,j", po::bool_switch());
    try {
        po::variables_map given;
        po::store(po::command_line_parser(argc, argv).options(known).positional({}).run(), given);
        const auto done = run(given);
        return done ? 0 : complain(done.error());
    } catch (const po::error& problem) {
        return complain({fmt::format("top: {}; see `cairn help top`", problem.what()), 0, ExitCode::usage});
    } catch (const std::exception& problem) {
        return complain({problem.what()});
    }
}
