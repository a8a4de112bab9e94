// What llama.cpp needs of VK_EXT_layer_settings where the system's headers are older than it; see test_vulkan.py.
#pragma once
#include_next <vulkan/vulkan.hpp>

#if VK_HEADER_VERSION < 268 && !defined(VK_EXT_layer_settings)
#include <vector>

namespace vk {

enum class LayerSettingTypeEXT : int32_t { eBool32 = 0 };

struct LayerSettingEXT {
    const char *        pLayerName;
    const char *        pSettingName;
    LayerSettingTypeEXT type;
    uint32_t            valueCount;
    const void *        pValues;
};

struct LayerSettingsCreateInfoEXT {
    VkStructureType         sType = static_cast<VkStructureType>(1000496000);
    const void *            pNext = nullptr;
    uint32_t                settingCount;
    const LayerSettingEXT * pSettings;

    explicit LayerSettingsCreateInfoEXT(const std::vector<LayerSettingEXT> & settings)
        : settingCount(static_cast<uint32_t>(settings.size())), pSettings(settings.data()) {}
};

} // namespace vk
#endif
