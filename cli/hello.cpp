#include "cli/hello.h"

#include <sys/socket.h>
#include <sys/time.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "cli/exit_code.h"

namespace cairn::cli {
namespace {

void append_quoted(std::string& to, std::string_view text) {
    constexpr char hex[] = "0123456789abcdef";
    to += '"';
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\') {
            to += '\\';
            to += c;
        } else if (byte < 0x20) {
            to += "\\u00";
            to += hex[byte >> 4];
            to += hex[byte & 15];
        } else {
            to += c;
        }
    }
    to += '"';
}

void append_utf8(std::string& to, std::uint32_t code) {
    if (code < 0x80) {
        to += static_cast<char>(code);
    } else if (code < 0x800) {
        to += static_cast<char>(0xc0 | (code >> 6));
        to += static_cast<char>(0x80 | (code & 0x3f));
    } else if (code < 0x10000) {
        to += static_cast<char>(0xe0 | (code >> 12));
        to += static_cast<char>(0x80 | ((code >> 6) & 0x3f));
        to += static_cast<char>(0x80 | (code & 0x3f));
    } else {
        to += static_cast<char>(0xf0 | (code >> 18));
        to += static_cast<char>(0x80 | ((code >> 12) & 0x3f));
        to += static_cast<char>(0x80 | ((code >> 6) & 0x3f));
        to += static_cast<char>(0x80 | (code & 0x3f));
    }
}

// Walks over the text of one JSON object.
class Reader {
  public:
    explicit Reader(std::string_view text) : rest_(text) {}

    char peek() {
        while (!rest_.empty() && std::strchr(" \t\r\n", rest_[0]) != nullptr) rest_.remove_prefix(1);
        return rest_.empty() ? '\0' : rest_[0];
    }
    bool accept(char c) {
        if (peek() != c || c == '\0') return false;
        rest_.remove_prefix(1);
        return true;
    }
    std::string string() {
        std::string value;
        if (!accept('"')) return value;
        while (!rest_.empty()) {
            const char c = next();
            if (c == '"') break;
            if (c == '\\')
                escape(value);
            else
                value += c;
        }
        return value;
    }
    // Any value: a string without its escapes, everything else as it stands.
    std::string value() {
        if (peek() == '"') return string();
        const std::string_view begin = rest_;
        int depth = 0;
        while (!rest_.empty()) {
            const char c = peek();
            if (depth == 0 && (c == ',' || c == '}' || c == ']')) break;
            if (c == '"') {
                string();
                continue;
            }
            if (c == '{' || c == '[') ++depth;
            if (c == '}' || c == ']') --depth;
            if (!rest_.empty()) rest_.remove_prefix(1);
            if (depth == 0 && (c == '}' || c == ']')) break;
        }
        std::string_view text = begin.substr(0, begin.size() - rest_.size());
        while (!text.empty() && std::strchr(" \t\r\n", text.back()) != nullptr) text.remove_suffix(1);
        return std::string(text);
    }

  private:
    char next() {
        const char c = rest_[0];
        rest_.remove_prefix(1);
        return c;
    }
    std::uint32_t four_digits() {
        std::uint32_t code = 0;
        for (int i = 0; i < 4 && !rest_.empty(); ++i) {
            const char c = next();
            const char lower = static_cast<char>(c | 0x20);
            code = code * 16 + static_cast<std::uint32_t>(c >= '0' && c <= '9'           ? c - '0'
                                                          : lower >= 'a' && lower <= 'f' ? lower - 'a' + 10
                                                                                         : 0);
        }
        return code;
    }
    void escape(std::string& value) {
        if (rest_.empty()) return;
        const char c = next();
        constexpr std::string_view from = "nrtbf";
        constexpr std::string_view to = "\n\r\t\b\f";
        if (const std::size_t at = from.find(c); at != std::string_view::npos) {
            value += to[at];
            return;
        }
        if (c != 'u') {
            value += c;
            return;
        }
        std::uint32_t code = four_digits();
        if (code >= 0xd800 && code < 0xdc00 && rest_.starts_with("\\u")) {
            rest_.remove_prefix(2);
            code = 0x10000 + ((code - 0xd800) << 10) + ((four_digits() - 0xdc00) & 0x3ff);
        }
        append_utf8(value, code);
    }

    std::string_view rest_;
};

std::string peer_pid(int fd) {
    ucred who{};
    socklen_t size = sizeof who;
    return ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 ? std::to_string(who.pid) : "unknown";
}

Welcome trouble(int code, std::string problem) {
    return {code, std::move(problem), {}, {}};
}

}  // namespace

std::string hello_message(const Wishes& wishes) {
    std::string message = "{\"verb\":\"hello\"";
    if (!wishes.checkpoint_folder.empty()) {
        message += ",\"ckptdir\":";
        append_quoted(message, wishes.checkpoint_folder);
    }
    if (!wishes.interval.empty()) message += ",\"interval\":" + wishes.interval;
    if (!wishes.keep.empty()) message += ",\"keep\":" + wishes.keep;
    if (wishes.self_contained) message += ",\"self_contained\":true";
    if (wishes.track_mem) message += ",\"track_mem\":true";
    if (!wishes.coordinator.empty()) {
        message += ",\"coordinator\":";
        append_quoted(message, wishes.coordinator);
    }
    if (!wishes.external.empty()) {
        message += ",\"external\":";
        append_quoted(message, wishes.external);
    }
    if (!wishes.landlock.empty()) {
        message += ",\"landlock\":";
        append_quoted(message, wishes.landlock);
    }
    if (!wishes.files.empty()) {
        message += ",\"files\":";
        append_quoted(message, wishes.files);
    }
    if (!wishes.with.empty()) {
        message += ",\"with\":";
        append_quoted(message, wishes.with);
    }
    if (!wishes.compress.empty()) {
        message += ",\"compress\":";
        append_quoted(message, wishes.compress);
    }
    return message + "}";
}

std::string json_field(std::string_view object, std::string_view name) {
    Reader reader(object);
    if (!reader.accept('{')) return {};
    while (reader.peek() == '"') {
        const std::string key = reader.string();
        if (!reader.accept(':')) return {};
        std::string value = reader.value();
        if (key == name) return value;
        if (!reader.accept(',')) return {};
    }
    return {};
}

Welcome say_hello(int fd, const Wishes& wishes) {
    const std::string message = hello_message(wishes);
    const timeval limit{10, 0};
    ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    if (::send(fd, message.data(), message.size(), MSG_NOSIGNAL) < 0)
        return trouble(exit_no_coordinator,
                       std::string("the coordinator can't be asked: ") + std::strerror(errno));
    static char answer[256 * 1024];  // the protocol's limit for one message
    for (;;) {
        const ssize_t size = ::recv(fd, answer, sizeof answer, 0);
        if (size < 0 && errno == EINTR) continue;
        if (size < 0 && errno == EAGAIN)
            return trouble(
                exit_timed_out,
                "the coordinator, pid " + peer_pid(fd) +
                    ", took the question and gave no answer for 10 s: is it stopped (kill -CONT), or "
                    "does it hang? Its log is in the session's folder");
        if (size <= 0)
            return trouble(exit_no_coordinator,
                           std::string("the coordinator went away: ") +
                               (size == 0 ? "it closed the connection" : std::strerror(errno)));
        const std::string_view event(answer, static_cast<std::size_t>(size));
        const std::string kind = json_field(event, "event");
        if (kind == "done") {
            Welcome welcome;
            welcome.region = json_field(event, "region");
            welcome.note = json_field(event, "note");
            welcome.processes = std::atoi(json_field(event, "np").c_str());
            welcome.folder = json_field(event, "ckptdir");
            welcome.moved_from = json_field(event, "moved_from");
            if (welcome.region.empty())
                return trouble(exit_failed, "the coordinator is of another version: it names no region");
            return welcome;
        }
        if (kind == "failed") {
            const int code = std::atoi(json_field(event, "code").c_str());
            return trouble(code > 0 && code < 126 ? code : exit_failed, json_field(event, "reason"));
        }
    }
}

}  // namespace cairn::cli
