#include "causality/protocol/together.h"

#include "causality/protocol/protocols.h"

namespace cairn::causality {
namespace {

// As between programs: bytes that are written and read.
class EncodedTogether final : public Together {
  public:
    EncodedTogether(ProtocolKind kind, Process processes, Encoding encoding) : Together(processes) {
        for (Process p = 0; p < processes; ++p) parts_.push_back(make_protocol(kind, p, processes, encoding));
        room_ = parts_[0]->most_piggyback();
    }
    void take_checkpoint(Process p) override { parts_[p]->take_checkpoint(); }
    std::size_t send(Process from, Process to, std::uint32_t slot) override {
        if (slot >= travelling_.size()) {
            travelling_.resize(slot + 1);
            carried_.resize(travelling_.size() * room_);
        }
        const std::size_t size = parts_[from]->send(to, {carried_.data() + slot * room_, room_});
        travelling_[slot] = {from, size};
        return size;
    }
    bool receive(Process to, std::uint32_t slot) override {
        // Nothing damages them here.
        return *parts_[to]->receive(travelling_[slot].from, bytes(slot));
    }
    void deliver(Process to, std::uint32_t) override { parts_[to]->deliver(); }
    std::size_t log_size(Process p) const override {
        const auto* logging = dynamic_cast<const SenderLogging*>(parts_[p].get());
        return logging == nullptr ? 0 : logging->checkpoint().log.size();
    }
    LoggedCheckpoint checkpoint(Process p) const override {
        const auto* logging = dynamic_cast<const SenderLogging*>(parts_[p].get());
        return logging == nullptr ? LoggedCheckpoint{} : logging->checkpoint();
    }
    std::vector<std::uint8_t> piggyback(std::uint32_t slot) const override {
        const auto its = bytes(slot);
        return {its.begin(), its.end()};
    }

  private:
    struct Travelling {
        Process from = none;
        std::size_t size = 0;
    };
    [[nodiscard]] std::span<const std::uint8_t> bytes(std::uint32_t slot) const {
        return {carried_.data() + slot * room_, travelling_[slot].size};
    }
    std::vector<std::unique_ptr<Protocol>> parts_;
    std::size_t room_ = 0;
    std::vector<Travelling> travelling_;
    std::vector<std::uint8_t> carried_;
};

}  // namespace

std::unique_ptr<Together> make_encoded(ProtocolKind kind, Process processes, Encoding encoding) {
    return std::make_unique<EncodedTogether>(kind, processes, encoding);
}

std::unique_ptr<Together> make_together(ProtocolKind kind, Process processes, Encoding encoding) {
    // How long differences are depends on each entry of the tables.
    if (encoding == Encoding::full && kind == ProtocolKind::fdas)
        return std::make_unique<FdasTogether>(processes);
    if (encoding == Encoding::full && kind == ProtocolKind::bhmr)
        return std::make_unique<BhmrTogether>(processes);
    if (encoding == Encoding::full && kind == ProtocolKind::logging)
        return std::make_unique<LoggingTogether>(processes);
    return make_encoded(kind, processes, encoding);
}

FdasTogether::FdasTogether(Process processes) : Together(processes), dates_(processes), sent_(processes) {
    for (Process p = 0; p < processes; ++p) take_checkpoint(p);
}

void FdasTogether::take_checkpoint(Process p) {
    dates_.changes(p);
    ++dates_.of(p)[p];
    sent_[p] = false;
}

std::size_t FdasTogether::send(Process from, Process, std::uint32_t slot) {
    sent_[from] = true;
    if (slot >= travelling_.size()) travelling_.resize(slot + 1);
    travelling_[slot] = dates_.send(from);
    return n_ * sizeof(std::uint32_t);
}

bool FdasTogether::receive(Process to, std::uint32_t slot) {
    return sent_[to] && dates_.news(to, travelling_[slot]);
}

void FdasTogether::deliver(Process to, std::uint32_t slot) {
    dates_.changes(to);
    dates_.merge(to, travelling_[slot]);
    dates_.release(travelling_[slot]);
}

std::vector<std::uint8_t> FdasTogether::piggyback(std::uint32_t slot) const {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(dates_.row(travelling_[slot]));
    return {bytes, bytes + n_ * sizeof(std::uint32_t)};
}

std::uint32_t Knowledge::send(Process p) {
    if (current_[p] == none) {
        current_[p] = rows_.copy(p);
        if (holders_.size() < rows_.made()) holders_.resize(rows_.made());
        holders_[current_[p]] = 1;
    }
    ++holders_[current_[p]];
    return current_[p];
}

}  // namespace cairn::causality
