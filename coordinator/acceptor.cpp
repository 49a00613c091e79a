#include "coordinator/acceptor.h"

#include <sys/socket.h>

#include <cerrno>
#include <chrono>

namespace cairn::coordinator {

namespace asio = boost::asio;
using namespace std::chrono_literals;

void Acceptor::start(Fd listener) {
    listener_ = std::make_unique<asio::posix::stream_descriptor>(io_, listener.release());
    wait();
}

void Acceptor::stop() {
    listener_.reset();
    pause_.cancel();
}

void Acceptor::wait() {
    listener_->async_wait(
        asio::posix::stream_descriptor::wait_read, [this](const boost::system::error_code& error) {
            if (error || !listener_) return;
            Fd fd(::accept4(listener_->native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
            if (fd) {
                accepted_(std::move(fd));
                if (!listener_) return;
            } else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
                // The connection stays in the backlog and the socket readable: asked at once again, it would
                // be a busy loop.
                pause_.expires_after(200ms);
                pause_.async_wait([this](const boost::system::error_code& stopped) {
                    if (!stopped && listener_) wait();
                });
                return;
            }
            wait();
        });
}

}  // namespace cairn::coordinator
