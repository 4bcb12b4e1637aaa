package guest

// GuestPackages is what names a build; see TestSourcesOfTheGuest.
var GuestPackages = guestPackages
