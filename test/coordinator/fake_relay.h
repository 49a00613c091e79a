// What a relay could be made to say by somebody who has the key: by tests, and by a bench that has no hundred
// hosts.
#pragma once

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "common/channel/channel.h"
#include "common/fd.h"
#include "coordinator/json.h"

namespace cairn::coordinator_test {

using coordinator::Json;

inline Fd call_port(std::uint16_t port) {
    Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in there{};
    there.sin_family = AF_INET;
    there.sin_port = htons(port);
    there.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&there), sizeof there) != 0) fd.reset();
    return fd;
}

class FakeRelay {
  public:
    FakeRelay(std::uint16_t port, const Key& key)
        : channel_(Channel::Role::relay, key), fd_(call_port(port)) {
        // As a real one: two messages in a row don't wait for an acknowledgement.
        const int on = 1;
        ::setsockopt(fd_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    }

    // False: the root has closed, or nothing came for 10 s.
    bool prove() {
        while (fd_ && !channel_.proved())
            if (!write(std::exchange(channel_.output, {})) || !read()) return false;
        return static_cast<bool>(fd_);
    }
    // As one who takes part; `members` are uids.
    bool join(const std::string& name, const std::vector<std::string>& members = {},
              const std::string& cid = "?") {
        Json list = Json::array();
        for (const std::string& uid : members) list.push_back({{"uid", uid}, {"pid", 1}, {"name", "one"}});
        return prove() && say({{"type", "host"}, {"name", name}, {"cid", cid}, {"members", list}}) &&
               hear("welcome").is_object();
    }
    bool say(const Json& message) { return say(message.dump()); }
    bool say(const std::string& text) {
        return channel_.send(text).has_value() && write(std::exchange(channel_.output, {}));
    }
    // The next message of this type; null at the end of the connection or after 10 s.
    Json hear(const std::string& type) { return hear_any({type}); }
    Json hear_any(const std::vector<std::string>& types) {
        for (;;) {
            while (!channel_.messages.empty()) {
                Json message = Json::parse(channel_.messages.front(), nullptr, false);
                channel_.messages.pop_front();
                if (message.is_object() && std::ranges::find(types, message.value("type", "")) != types.end())
                    return message;
            }
            if (!read()) return nullptr;
        }
    }
    // Nothing of the channel's: as it is.
    bool write(const std::string& bytes) const {
        for (std::size_t at = 0; at < bytes.size();) {
            const ssize_t n = ::send(fd_.get(), bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
            if (n <= 0) return false;
            at += static_cast<std::size_t>(n);
        }
        return true;
    }
    // What has come already, one message; nothing more: null.
    Json next() {
        if (channel_.messages.empty()) return nullptr;
        Json message = Json::parse(channel_.messages.front(), nullptr, false);
        channel_.messages.pop_front();
        return message;
    }
    [[nodiscard]] int fd() const { return fd_.get(); }

    // Waits for 10 s at most.
    bool read() {
        pollfd polled{fd_.get(), POLLIN, 0};
        char buffer[65536];
        if (::poll(&polled, 1, 10'000) <= 0) return false;
        const ssize_t n = ::recv(fd_.get(), buffer, sizeof buffer, 0);
        return n > 0 && channel_.feed({buffer, static_cast<std::size_t>(n)}).has_value();
    }

  private:
    Channel channel_;
    Fd fd_;
};

}  // namespace cairn::coordinator_test
