#include "coordinator/console.h"

#include <editline/readline.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <sstream>
#include <vector>

#include "common/human.h"
#include "coordinator/words.h"

namespace cairn::coordinator {

namespace asio = boost::asio;

namespace {

constexpr const char* prompt = "cairn> ";
constexpr const char* red = "\033[31m";
constexpr const char* green = "\033[32m";
constexpr const char* dim = "\033[2m";

constexpr const char* help_lines[] = {
    "  c        checkpoint now             (c kill: and end all programs after it)",
    "  l        list the processes",
    "  s        status",
    "  w        who waits where: what each main thread is in",
    "  i N      checkpoint every N seconds (0: never)",
    "  k        kill all processes",
    "  q        quit; the programs go on without a coordinator",
    "  h        this help",
};

// libedit's callback interface calls a plain function.
Console* at_terminal = nullptr;

Json problem(const std::string& reason) {
    return {{"event", "failed"}, {"reason", reason}};
}

std::string time_of_day() {
    const std::time_t now = std::time(nullptr);
    std::tm local{};
    char text[32] = "";
    if (::localtime_r(&now, &local) != nullptr) std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &local);
    return text;
}

}  // namespace

Console::Console(asio::io_context& io, Kind kind, Actions actions)
    : io_(io), kind_(kind), actions_(std::move(actions)), input_(io) {
    const char* term = std::getenv("TERM");
    const char* no_color = std::getenv("NO_COLOR");
    colours_ = kind_ == Kind::terminal && ::isatty(STDOUT_FILENO) == 1 && term != nullptr &&
               std::string(term) != "dumb" && (no_color == nullptr || *no_color == '\0');
}

Console::~Console() {
    stop();
}

void Console::start(const std::string& greeting) {
    print(greeting);
    if (kind_ == Kind::log) return;
    // In the background of a shell a read would stop us (SIGTTIN): nothing is read then.
    if (kind_ == Kind::terminal && ::tcgetpgrp(STDIN_FILENO) != ::getpgrp()) return;
    // A descriptor of our own; O_NONBLOCK is never set, for it would hold for everybody who shares the
    // terminal.
    boost::system::error_code unfit;
    const int fd = ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
    if (fd < 0) return;
    input_.assign(fd, unfit);
    if (unfit) {
        // A regular file or /dev/null can't be waited for, and needs no waiting.
        std::string text;
        char buffer[4096];
        for (ssize_t n = 0; (n = ::read(fd, buffer, sizeof buffer)) > 0 && text.size() < 1 << 20;)
            text.append(buffer, static_cast<std::size_t>(n));
        ::close(fd);
        std::istringstream lines(text);
        for (std::string line; std::getline(lines, line);)
            asio::post(io_, [this, line] { line_typed(line); });
        return;
    }
    reading_ = true;
    if (kind_ == Kind::pipe) return read_pipe();
    print("h for help", dim);
    at_terminal = this;
    rl_catch_signals = 0;
    ::using_history();
    ::rl_callback_handler_install(prompt, &Console::line_handler);
    read_terminal();
}

void Console::stop() {
    if (at_terminal == this) {
        clear_line();
        ::rl_callback_handler_remove();
        at_terminal = nullptr;
    }
    reading_ = false;
    boost::system::error_code ignored;
    input_.close(ignored);
}

void Console::lose_terminal() {
    kind_ = Kind::log;
    if (at_terminal == this) at_terminal = nullptr;
    reading_ = false;
    boost::system::error_code ignored;
    input_.close(ignored);
}

void Console::read_terminal() {
    input_.async_wait(asio::posix::stream_descriptor::wait_read,
                      [this](const boost::system::error_code& error) {
                          if (error || !reading_) return;
                          ::rl_callback_read_char();
                          if (reading_) read_terminal();
                      });
}

void Console::line_handler(char* line) {
    Console* console = at_terminal;
    if (console == nullptr) return;
    if (line == nullptr) {
        console->clear_line();
        console->reading_ = false;
        console->actions_.ended();
        return;
    }
    const std::string text = line;
    std::free(line);
    if (!text.empty()) ::add_history(text.c_str());
    // The prompt comes back by itself when the handler returns; what is printed later moves it down.
    asio::post(console->io_, [console, text] { console->line_typed(text); });
}

void Console::read_pipe() {
    input_.async_wait(asio::posix::stream_descriptor::wait_read,
                      [this](const boost::system::error_code& error) {
                          if (error || !reading_) return;
                          char buffer[4096];
                          const ssize_t n = ::read(input_.native_handle(), buffer, sizeof buffer);
                          if (n < 0 && (errno == EAGAIN || errno == EINTR)) return read_pipe();
                          if (n > 0) pending_.append(buffer, static_cast<std::size_t>(n));
                          for (std::size_t end = 0; (end = pending_.find('\n')) != std::string::npos;) {
                              const std::string line = pending_.substr(0, end);
                              pending_.erase(0, end + 1);
                              line_typed(line);
                          }
                          if (n > 0) {
                              if (pending_.size() > 65536) pending_.clear();
                              return read_pipe();
                          }
                          // The end of the pipe: the writer has said what it wanted to say. The session goes
                          // on until q.
                          if (!pending_.empty()) line_typed(std::exchange(pending_, {}));
                          reading_ = false;
                      });
}

Json Console::parse(const std::string& line) {
    std::istringstream words(line);
    std::string command, argument, rest;
    words >> command >> argument >> rest;
    if (command.empty()) return nullptr;
    const auto is = [&command](const char* key, const char* word) {
        return command == key || command == word;
    };
    const bool plain = argument.empty();
    if (is("h", "help") || command == "?") return {{"event", "help"}};
    if (is("l", "list") && plain) return {{"verb", "list"}};
    if (is("s", "status") && plain) return {{"verb", "status"}};
    if (is("w", "waits") && plain) return {{"verb", "waits"}};
    if (is("k", "kill") && plain) return {{"verb", "kill"}};
    if (is("q", "quit") && plain) return {{"verb", "quit"}};
    if (is("c", "checkpoint")) {
        if (!plain && argument != "kill" && argument != "--kill") return problem("c takes nothing, or kill");
        return {{"verb", "checkpoint"}, {"kill", !plain}};
    }
    // i5 as well as i 5
    if (command.size() > 1 && command[0] == 'i' && command[1] >= '0' && command[1] <= '9' && plain) {
        argument = command.substr(1);
        command = "i";
    }
    if (is("i", "interval")) {
        double seconds = -1;
        const auto [end, bad] = std::from_chars(argument.data(), argument.data() + argument.size(), seconds);
        if (bad != std::errc() || end != argument.data() + argument.size() || !(seconds >= 0) ||
            !rest.empty())
            return problem("i takes the number of seconds between checkpoints, 0 for none");
        return {{"verb", "interval"}, {"seconds", seconds}};
    }
    return problem(fmt::format("there is no command '{}'; h for help", printable(line)));
}

void Console::line_typed(const std::string& line) {
    const Json request = parse(line);
    if (request.is_null()) return;
    if (request.contains("verb")) return actions_.ask(request);
    if (get_string(request, "event") != "help") return show(request);
    for (const char* text : help_lines) print(text);
}

void Console::clear_line() {
    // The prompt stands on the terminal's last line, or a progress line does.
    if (kind_ == Kind::terminal) std::fputs("\r\033[K", stdout);
}

void Console::restore_line() {
    if (at_terminal == this && reading_) ::rl_forced_update_display();
    std::fflush(stdout);
}

void Console::print(const std::string& text, const char* colour) {
    const std::string line = printable(text);
    if (kind_ == Kind::log) {
        std::fprintf(stderr, "%s %s\n", time_of_day().c_str(), line.c_str());
        return;
    }
    clear_line();
    progress_shown_ = false;
    const bool coloured = colours_ && *colour != '\0';
    std::fputs(fmt::format("{}{}{}\n", coloured ? colour : "", line, coloured ? "\033[0m" : "").c_str(),
               stdout);
    restore_line();
}

void Console::print_progress(const std::string& text) {
    if (kind_ != Kind::terminal) return;
    clear_line();
    std::fputs(first_columns(printable(text), 100).c_str(), stdout);
    std::fflush(stdout);
    progress_shown_ = true;
}

void Console::show(const Json& event) {
    const std::string kind = get_string(event, "event");
    if (kind == "progress") return print_progress(progress_words(event));
    if (kind == "phase") {
        const std::string name = get_string(event, "name");
        if (name != "prepare" && name != "kill" && name != "prune") print_progress("checkpoint: " + name);
    }
    if (kind == "process" && !std::exchange(list_begun_, true)) print(list_head(), dim);
    if (kind == "done") list_begun_ = false;
    const char* colour = kind == "failed" ? red : kind == "done" && event.contains("directory") ? green : "";
    for (const std::string& line : words_of(event)) {
        print(line, colour);
        colour = "";
    }
    if (progress_shown_ && (kind == "done" || kind == "failed")) {
        progress_shown_ = false;
        clear_line();
        restore_line();
    }
}

}  // namespace cairn::coordinator
