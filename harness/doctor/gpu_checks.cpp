#include <fmt/format.h>

#include <algorithm>

#include "harness/doctor/checks.h"

namespace stbench::harness::doctor {
namespace {

constexpr std::string_view kPciDevices = "/sys/bus/pci/devices";

/// The places on the bus of NVIDIA's display and compute devices, driver or not.
std::vector<std::string> nvidia_devices(const speedtorch::SystemFiles& files) {
  std::vector<std::string> found;
  for (const auto& place : files.names(kPciDevices)) {
    const auto vendor = files.first_line(fmt::format("{}/{}/vendor", kPciDevices, place));
    const auto kind = files.first_line(fmt::format("{}/{}/class", kPciDevices, place));
    if (vendor == "0x10de" && kind && kind->starts_with("0x03")) found.push_back(place);
  }
  return found;
}

/// "GPU 0 (Name): text" for each GPU that `text_of` has something to say of.
template <class TextOf>
std::string of_each(const std::vector<GpuState>& gpus, TextOf text_of) {
  std::vector<std::string> parts;
  for (std::size_t index = 0; index < gpus.size(); ++index) {
    const std::string text = text_of(gpus[index]);
    if (!text.empty())
      parts.push_back(gpus.size() == 1 ? text : fmt::format("GPU {} of {}: {}", index, gpus.size(), text));
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

/// A check of each GPU: `unknown` without a driver, or if it does not tell of some of them what is asked.
/// @param known whether the driver tells, @param trouble in words, empty if there is none
template <class Known, class Trouble, class Judge>
Finding check_each(const Sources& sources, Known known, Trouble trouble, std::string_view good, Judge judge) {
  if (!sources.gpus) return unknown(sources.no_gpus);
  const auto& gpus = sources.gpus->devices;
  if (gpus.empty()) return unknown("the driver lists no GPU");
  if (const std::string bad = of_each(gpus, trouble); !bad.empty()) return judge(bad);
  if (!std::ranges::all_of(gpus, known)) return unknown("the driver does not tell");
  return fine(std::string(good));
}

bool is_idle(const GpuState& gpu) {
  return gpu.throttle_reasons &&
         std::ranges::find(*gpu.throttle_reasons, "idle") != gpu.throttle_reasons->end();
}

std::string narrow_link(const GpuState& gpu) {
  if (!gpu.link_width || !gpu.link_width_max || *gpu.link_width >= *gpu.link_width_max) return {};
  return fmt::format("{} of {} lanes", *gpu.link_width, *gpu.link_width_max);
}

std::string slow_link(const GpuState& gpu) {
  if (!gpu.link_generation || !gpu.link_generation_max || *gpu.link_generation >= *gpu.link_generation_max)
    return {};
  return fmt::format("generation {} of {}", *gpu.link_generation, *gpu.link_generation_max);
}

Finding check_driver(const Sources& sources) {
  if (sources.gpus && !sources.gpus->devices.empty())
    return fine(fmt::format("there, with {} GPU{}", sources.gpus->devices.size(),
                            sources.gpus->devices.size() == 1 ? "" : "s"));
  const std::string why = sources.gpus ? "the driver lists no GPU" : sources.no_gpus;
  if (nvidia_devices(sources.files).empty())
    return note(fmt::format("{}, and no NVIDIA GPU on the bus", why),
                "rows on cuda: they are not measured here");
  return spoils(fmt::format("{}, but an NVIDIA GPU is on the bus", why),
                "rows on cuda: they are not measured",
                "install the driver of this GPU, load it (modprobe nvidia), let the container see it");
}

Finding check_iommu(const Sources& sources) {
  const auto devices = nvidia_devices(sources.files);
  if (devices.empty()) {
    if (sources.gpus && !sources.gpus->devices.empty())
      return unknown("the bus does not show the GPU that the driver has");
    return fine("no NVIDIA GPU on the bus that it could slow");
  }
  for (const auto& place : devices) {
    const auto group = fmt::format("{}/{}/iommu_group", kPciDevices, place);
    const auto type = sources.files.first_line(group + "/type");
    if (!type && !sources.files.names(group).empty())
      return unknown("the kernel does not tell how it is used");
    if (type && type->starts_with("DMA"))
      return note(fmt::format("translates the GPU's accesses ({})", *type),
                  "pinned, staged, copies between host and GPU: each page is translated",
                  "boot with iommu=pt, where nothing needs the isolation");
  }
  return fine("off, or passes the GPU's accesses through");
}

Finding check_link(const Sources& sources) {
  if (sources.gpus && of_each(sources.gpus->devices, narrow_link).empty()) {
    // An idle GPU lowers the generation and raises it again under load: that is no finding.
    const bool all_idle = std::ranges::all_of(
        sources.gpus->devices, [](const GpuState& gpu) { return slow_link(gpu).empty() || is_idle(gpu); });
    const auto slow = of_each(sources.gpus->devices, slow_link);
    if (all_idle && !slow.empty())
      return unknown(fmt::format("{} while idle; a report's environment.groups has it under load", slow));
  }
  return check_each(
      sources, [](const GpuState& gpu) { return gpu.link_width && gpu.link_generation; },
      [](const GpuState& gpu) {
        const auto narrow = narrow_link(gpu), slow = slow_link(gpu);
        return narrow.empty() ? slow : slow.empty() ? narrow : narrow + ", " + slow;
      },
      "as wide and fast as device and slot allow",
      [](const std::string& bad) {
        return spoils(bad, "pinned, staged, copies between host and GPU: the link is their ceiling",
                      "reseat the card, use a slot with all lanes, check the firmware's PCIe settings");
      });
}

Finding check_gpu_clocks(const Sources& sources) {
  return check_each(
      sources, [](const GpuState& gpu) { return gpu.throttle_reasons.has_value(); },
      [](const GpuState& gpu) {
        std::vector<std::string> slowing;
        for (const auto& reason : gpu.throttle_reasons.value_or(std::vector<std::string>{})) {
          if (slows_down(reason)) slowing.push_back(reason);
        }
        return fmt::format("{}", fmt::join(slowing, ", "));
      },
      "not lowered",
      [](const std::string& bad) {
        return spoils("lowered: " + bad,
                      "rows on cuda: samples taken then are counted in the column throttled",
                      "better cooling or a higher power limit (nvidia-smi -pl); wait until it is cool");
      });
}

Finding check_gpu_load(const Sources& sources) {
  constexpr int kQuiet = 5;
  return check_each(
      sources, [](const GpuState& gpu) { return gpu.busy_percent.has_value(); },
      [](const GpuState& gpu) {
        return gpu.busy_percent.value_or(0) > kQuiet ? fmt::format("{} % busy", *gpu.busy_percent) : "";
      },
      "idle",
      [](const std::string& bad) {
        return spoils(bad, "rows on cuda: another program uses it", "stop it (nvidia-smi shows it)");
      });
}

Finding check_mig(const Sources& sources) {
  return check_each(
      sources, [](const GpuState& gpu) { return gpu.mig.has_value(); },
      [](const GpuState& gpu) { return gpu.mig.value_or(false) ? "on" : ""; }, "off",
      [](const std::string& bad) {
        return spoils(bad, "rows on cuda: they are of a slice, beside others on the same GPU",
                      "as root, if no slice is needed: nvidia-smi -mig 0");
      });
}

Finding check_ecc(const Sources& sources) {
  return check_each(
      sources, [](const GpuState& gpu) { return gpu.ecc.has_value(); },
      [](const GpuState& gpu) { return gpu.ecc.value_or(false) ? "on" : ""; }, "off",
      [](const std::string& bad) {
        return note(bad, "device: with GDDR memory it takes bandwidth, with HBM none to speak of");
      });
}

Finding check_persistence(const Sources& sources) {
  return check_each(
      sources, [](const GpuState& gpu) { return gpu.persistence.has_value(); },
      [](const GpuState& gpu) { return gpu.persistence.value_or(true) ? "" : "off"; }, "on",
      [](const std::string& bad) {
        return spoils(bad, "rows on cuda: each process starts the driver again and resets its clocks",
                      "as root: nvidia-smi -pm 1");
      });
}

Finding check_confidential_computing(const Sources& sources) {
  if (!sources.gpus) return unknown(sources.no_gpus);
  if (!sources.gpus->confidential_computing) return unknown("the driver does not tell");
  if (!*sources.gpus->confidential_computing) return fine("off");
  return note("on",
              "pinned, staged, copies between host and GPU: they are encrypted, at a fraction of the link",
              "a machine without it, where its protection is not needed");
}

}  // namespace

std::vector<Check> gpu_checks() {
  return {
      {"driver", check_driver},
      {"iommu", check_iommu},
      {"link", check_link},
      {"gpu-clocks", check_gpu_clocks},
      {"gpu-load", check_gpu_load},
      {"mig", check_mig},
      {"ecc", check_ecc},
      {"persistence", check_persistence},
      {"confidential-computing", check_confidential_computing},
  };
}

}  // namespace stbench::harness::doctor
