#include "resources/tcp/restore_link_talk.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "common/schema/msgpack.h"

namespace cairn::restart {
namespace {

constexpr auto talk_patience = std::chrono::seconds(20);  // nothing moved
constexpr std::size_t speech_piece = 256 << 10;           // bytes in one message
constexpr std::size_t most_words = 64 << 10;              // MessagePack

// What one says: words, with the number of bytes that follow, and these in pieces.
class Speech {
  public:
    Speech(wire::EndSays words, std::span<const std::uint8_t> bytes) : bytes_(bytes) {
        words.size = bytes.size();
        words_ = nlohmann::json::to_msgpack(pack(words));
    }
    [[nodiscard]] bool over() const { return begun_ && bytes_.empty(); }
    Result<> go_on(Channel& channel) {
        const auto next = begun_ ? bytes_.first(std::min(bytes_.size(), speech_piece)) : std::span(words_);
        if (std::exchange(begun_, true)) bytes_ = bytes_.subspan(next.size());
        return channel.send({reinterpret_cast<const char*>(next.data()), next.size()});
    }

  private:
    schema::Bytes words_;
    std::span<const std::uint8_t> bytes_;
    bool begun_ = false;
};

// What the other one says.
class Hearing {
  public:
    explicit Hearing(std::uint64_t most) : most_(most) {}
    [[nodiscard]] bool over() const { return begun_ && said_.bytes.size() == size_; }
    Result<> take(const std::string& message) {
        if (!begun_) return begin(message);
        if (message.empty() || message.size() > size_ - said_.bytes.size())
            return fail_code(ExitCode::damaged, "its other part says more than the {} bytes that it has",
                             size_);
        said_.bytes.insert(said_.bytes.end(), message.begin(), message.end());
        return {};
    }
    LinkTalk::Said said() { return std::move(said_); }

  private:
    Result<> begin(const std::string& message) {
        if (message.size() > most_words)
            return fail_code(ExitCode::damaged, "its other part says {} bytes of itself, {} are allowed",
                             message.size(), most_words);
        const schema::Bytes bytes(message.begin(), message.end());
        const auto said = TRY(schema::parse(bytes, "what its other part says of itself"));
        auto words = wire::unpack<wire::EndSays>(said);
        if (!words) return fail_code(ExitCode::damaged, "{}", words.error().what);
        size_ = words->size;
        if (size_ > most_)
            return fail_code(ExitCode::damaged,
                             "its other part speaks of {} bytes, by this part's image it has {} at most",
                             size_, most_);
        said_.words = *words;
        begun_ = true;
        return {};
    }

    std::uint64_t most_, size_ = 0;
    LinkTalk::Said said_;
    bool begun_ = false;
};

}  // namespace

Result<bool> LinkTalk::move(bool hear) {
    const short events = static_cast<short>((hear ? POLLIN : 0) | (channel_.output.empty() ? 0 : POLLOUT));
    auto seen = TRY(wait_(fd_, events));
    bool moved = false;
    if ((seen & POLLOUT) != 0) {
        const ssize_t n =
            ::send(fd_, channel_.output.data(), channel_.output.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN && errno != EINTR) return fail_errno("its other part");
        if (n > 0) {
            channel_.output.erase(0, static_cast<std::size_t>(n));
            moved = true;
        }
    }
    if (hear && (seen & (POLLIN | POLLHUP | POLLERR)) != 0) {
        static thread_local std::vector<char> buffer(speech_piece);
        const ssize_t n =
            ::recv(fd_, buffer.data(), std::min(channel_.wanted(), buffer.size()), MSG_DONTWAIT);
        if (n == 0) return fail("its other part has given up");
        if (n < 0 && errno != EAGAIN && errno != EINTR) return fail_errno("its other part");
        if (n > 0) {
            CHECK_OK(channel_.feed({buffer.data(), static_cast<std::size_t>(n)}));
            moved = true;
        }
    }
    return moved;
}

Result<> LinkTalk::prove(const std::string& token, std::chrono::seconds patience) {
    channel_.output.insert(0, token);
    for (const auto until = Clock::now() + patience; !channel_.proved() || !channel_.output.empty();) {
        if (Clock::now() > until)
            return fail_code(ExitCode::timed_out,
                             "who answers doesn't prove within {} s that it is the other part",
                             patience.count());
        if (auto moved = move(!channel_.proved()); !moved) {
            if (channel_.greeted())
                return fail_code(ExitCode::refused, "who answers hasn't this connection's key");
            return std::unexpected(std::move(moved.error()));
        }
    }
    return {};
}

Result<LinkTalk::Said> LinkTalk::swap(const wire::EndSays& words, std::span<const std::uint8_t> bytes,
                                      std::uint64_t most) {
    Speech speech(words, bytes);
    Hearing hearing(most);
    const auto take = [&]() -> Result<> {
        for (; !channel_.messages.empty() && !hearing.over(); channel_.messages.pop_front())
            CHECK_OK(hearing.take(channel_.messages.front()));
        return {};
    };
    auto moved = Clock::now();
    while (!speech.over() || !channel_.output.empty() || !hearing.over()) {
        if (channel_.output.empty() && !speech.over()) CHECK_OK(speech.go_on(channel_));
        auto some = TRY(move(!hearing.over()));
        CHECK_OK(take());
        if (some)
            moved = Clock::now();
        else if (Clock::now() - moved > talk_patience)
            return fail_code(ExitCode::timed_out, "its other part says nothing for {} s",
                             talk_patience.count());
    }
    return hearing.said();
}

}  // namespace cairn::restart
