// A whole coordinator and those who talk to it: clients of its Unix socket, and relays that have the key.
// Each line of the input is one message; its first byte says whose:
//   a b   clients         r s   relays         - and one of these: it closes its connection
// Whatever they say, the next client is answered.
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>

#include "common/channel/channel.h"
#include "coordinator/coordinator.h"

namespace {

using namespace cairn;
using namespace cairn::coordinator;

const std::string conversation_key(64, 'a');

// What would end processes or write files is left out, and processes are this one only.
Json harmless(const Json& said) {
    if (said.is_array()) {
        Json list = Json::array();
        for (const Json& one : said) list.push_back(harmless(one));
        return list;
    }
    if (!said.is_object()) return said;
    Json object = Json::object();
    for (const auto& [field, value] : said.items()) {
        if (field == "interval" || field == "ckptdir") continue;
        object[field] = field == "real" ? Json(::getpid()) : harmless(value);
    }
    const std::string verb = get_string(object, "verb");
    if (verb == "kill" || verb == "quit" || verb == "checkpoint" || verb == "interval")
        object["verb"] = "status";
    return object;
}

std::string made_harmless(std::string_view said) {
    const Json object = parse_object(said);
    return object.is_object() ? text_of(harmless(object)) : std::string(said);
}

// The port at which this process listens for relays.
in_port_t port_of_root() {
    for (int fd = 3; fd < 256; ++fd) {
        int listens = 0;
        socklen_t size = sizeof listens;
        sockaddr_in name{};
        socklen_t length = sizeof name;
        if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens != 0 &&
            ::getsockname(fd, reinterpret_cast<sockaddr*>(&name), &length) == 0 && name.sin_family == AF_INET)
            return name.sin_port;
    }
    std::abort();
}

class Conversation {
  public:
    Conversation() : io_(1) {
        static const std::string folder = [] {
            char name[] = "/tmp/cairn-fuzz-XXXXXX";
            if (::mkdtemp(name) == nullptr) std::abort();
            return std::string(name);
        }();
        folder_ = folder;
        ::setenv("CAIRN_RUNDIR", folder.c_str(), 1);
        ::setenv("CAIRN_KEY", conversation_key.c_str(), 1);
        ::setenv("CAIRN_CAPTURE", "/bin/false", 1);
        auto session = make_session("fuzz");
        if (!session) std::abort();
        session_ = *session;
        auto region = RegionFile::open(session_);
        if (!region) std::abort();
        Settings settings;
        settings.session = "fuzz";
        settings.ckptdir = folder + "/ckpt";
        settings.listen = "127.0.0.1:0";
        settings.host = "root";
        coordinator_.emplace(io_, settings, session_, std::move(*region), Console::Kind::log);
        if (!coordinator_->start()) std::abort();
        port_ = port_of_root();
    }
    ~Conversation() {
        ends_.clear();
        turn();
        coordinator_.reset();
        std::error_code ignored;
        std::filesystem::remove_all(folder_ + "/fuzz", ignored);
    }

    void say(char who, std::string_view text) {
        if (who == 'a' || who == 'b') {
            End& end = ends_[who];
            if (!end.fd) end.fd.reset(connect_session(session_));
            const std::string said = made_harmless(text);
            (void)!::send(end.fd.get(), said.data(), said.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        }
        if (who == 'r' || who == 's') {
            End& end = ends_[who];
            if (!end.fd && !call(end)) return;
            if (end.channel->send(made_harmless(text))) write(end);
        }
        if (who == '-' && !text.empty()) ends_.erase(text[0]);
        turn();
    }

    [[nodiscard]] bool answers() {
        const Fd fd(connect_session(session_));
        const std::string_view question = R"({"verb":"status"})";
        if (!fd || ::send(fd.get(), question.data(), question.size(), MSG_NOSIGNAL) < 0) return false;
        turn();
        std::string answer(1 << 20, '\0');
        const ssize_t n = ::recv(fd.get(), answer.data(), answer.size(), MSG_DONTWAIT);
        return n > 0 &&
               get_string(parse_object({answer.data(), static_cast<std::size_t>(n)}), "event") == "done";
    }

  private:
    struct End {
        Fd fd;
        std::optional<Channel> channel;
    };

    bool call(End& end) {
        end.fd.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        sockaddr_in there{};
        there.sin_family = AF_INET;
        there.sin_port = port_;
        there.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        if (::connect(end.fd.get(), reinterpret_cast<const sockaddr*>(&there), sizeof there) != 0)
            return false;
        // No port is kept for a connection that is over.
        const linger at_once{1, 0};
        ::setsockopt(end.fd.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        end.channel.emplace(Channel::Role::relay, *Key::parse(conversation_key, "fuzz"));
        for (int i = 0; i < 20 && !end.channel->proved(); ++i) {
            write(end);
            turn();
            if (!read(end)) return false;
        }
        return end.channel->proved();
    }
    static void write(End& end) {
        const std::string out = std::exchange(end.channel->output, {});
        (void)!::send(end.fd.get(), out.data(), out.size(), MSG_NOSIGNAL);
    }
    static bool read(End& end) {
        char buffer[65536];
        const ssize_t n = ::recv(end.fd.get(), buffer, sizeof buffer, MSG_DONTWAIT);
        if (n < 0) return errno == EAGAIN;
        return n > 0 && end.channel->feed({buffer, static_cast<std::size_t>(n)});
    }

    // Everything that can happen now.
    void turn() {
        for (int i = 0; i < 1000; ++i) {
            io_.restart();
            if (io_.poll() == 0) return;
        }
        std::abort();  // it would never be done
    }

    boost::asio::io_context io_;
    std::string folder_;
    Session session_;
    std::optional<Coordinator> coordinator_;
    std::map<char, End> ends_;
    in_port_t port_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    Conversation conversation;
    std::string_view text(reinterpret_cast<const char*>(bytes), size);
    for (int lines = 0; !text.empty() && lines < 100; ++lines) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        if (end > 0) conversation.say(text[0], text.substr(1, end - 1));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    if (!conversation.answers()) std::abort();
    return 0;
}
